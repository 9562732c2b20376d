"""Read a trace file in whichever format its header shows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from laneway.simulator.trace import TraceError, TraceJob
from laneway.simulator.traces import native, tiresias

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Format:
    """A CSV format."""

    name: str
    required: frozenset[str]
    optional: frozenset[str]
    read_row: Callable[[Row], TraceJob]


FORMATS = (
    Format("laneway", native.REQUIRED, native.OPTIONAL, native.read_row),
    Format("tiresias", tiresias.REQUIRED, tiresias.OPTIONAL, tiresias.read_row),
)


def read_trace(path: Path) -> tuple[TraceJob, ...]:
    """Return the jobs of a trace file, ordered by submission.

    Raises:
        TraceError: the file cannot be read, its header is of no known format, or a line of it is wrong.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            form = _form(path, [name.strip() for name in reader.fieldnames or ()])
            jobs = [_read(path, number, form, row) for number, row in enumerate(reader, start=2)]
    except OSError as error:
        raise TraceError(f"cannot read the trace {path}: {error.strerror}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise TraceError(f"{path} is no CSV file: {error}") from error
    if not jobs:
        raise TraceError(f"{path} has a header and no jobs")
    _refuse_twice(path, jobs)
    return tuple(sorted(jobs, key=lambda job: (job.submit_seconds, job.key)))


def _form(path: Path, columns: list[str]) -> Format:
    found = frozenset(columns)
    for form in FORMATS:
        if form.required <= found <= form.required | form.optional:
            return form
    known = "; ".join(
        f"{form.name}: {', '.join(sorted(form.required))}"
        + (f" and perhaps {', '.join(sorted(form.optional))}" if form.optional else "")
        for form in FORMATS
    )
    raise TraceError(
        f"{path} has the columns {', '.join(columns) or '(none)'}, which is no known format ({known})"
    )


def _read(path: Path, number: int, form: Format, row: dict[str | None, str | None]) -> TraceJob:
    if None in row or None in row.values():
        raise TraceError(f"{path}, line {number}: it has not as many fields as the header")
    try:
        return form.read_row({str(name).strip(): str(value).strip() for name, value in row.items()})
    except ValueError as error:
        raise TraceError(f"{path}, line {number}: {error}") from error


def _refuse_twice(path: Path, jobs: Iterable[TraceJob]) -> None:
    seen: set[str] = set()
    for job in jobs:
        if job.key in seen:
            raise TraceError(f"{path} lists the job {job.key} twice")
        seen.add(job.key)
