"""Reads a trace file in the format that its beginning shows."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from laneway.simulator.input_file import InputError
from laneway.simulator.trace import TraceJob, TraceRead
from laneway.simulator.traces import (
    gavel,
    helios,
    muri,
    native,
    openb,
    pai,
    philly,
    philly_csv,
    pollux,
    synergy,
    tiresias,
)
from laneway.simulator.traces.trace_format import Format, Head, JobRead, ReadOptions, Skipped

FORMATS: tuple[Format, ...] = (
    native.FORMAT,
    tiresias.FORMAT,
    muri.FORMAT,
    philly.FORMAT,
    philly_csv.FORMAT,
    helios.FORMAT,
    openb.FORMAT,
    pai.FORMAT,
    gavel.FORMAT,
    synergy.FORMAT,
    pollux.FORMAT,
)
"""All known formats. No file matches two of them."""

_HEAD_CHARACTERS = 1 << 16


def read_trace(path: Path, options: ReadOptions | None = None) -> tuple[TraceJob, ...]:
    """Return the jobs of a trace file, ordered by submission; :func:`load_trace` also returns what was skipped.

    Raises:
        InputError: as ``load_trace``.
    """
    return load_trace(path, options).jobs


def load_trace(path: Path, options: ReadOptions | None = None) -> TraceRead:
    """Return the jobs of a trace file, its format, and how many jobs were skipped, by reason.

    Raises:
        InputError: the file cannot be read, its format is unknown, or something in it is wrong; the message names the file, the
            line and the column, and says what to write.
    """
    options = options or ReadOptions()
    trace_format = _recognized(path)
    skipped: Counter[str] = Counter()
    jobs: Iterable[TraceJob] = _without_skipped(trace_format.jobs(path, options), skipped)
    if options.limit is not None:
        jobs = _first(jobs, options.limit, skipped)
    read = _without_repeats(path, trace_format, sorted(jobs, key=_by_submission), skipped)
    if not read:
        raise InputError(
            f"{path} has no jobs to simulate" + (_reasons(skipped) or ": write a line for each job")
        )
    if trace_format.recorded:
        start_seconds = read[0].submit_seconds
        read = [replace(job, submit_seconds=job.submit_seconds - start_seconds) for job in read]
    return TraceRead(tuple(read), trace_format.name, dict(skipped))


def _recognized(path: Path) -> Format:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            head = Head(file.readline(_HEAD_CHARACTERS).rstrip("\r\n"))
    except OSError as error:
        raise InputError(f"cannot read the trace {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file: {error}") from error
    for trace_format in FORMATS:
        if trace_format.recognize(head):
            return trace_format
    if not head.text.strip():
        raise InputError(
            f"{path} is empty or begins with an empty line: write a header such as {native.EXAMPLE_HEADER}, and a line for each job"
        )
    columns = frozenset(head.columns)
    for trace_format in FORMATS:
        unknown = sorted(columns - trace_format.required - trace_format.optional)
        if trace_format.required and trace_format.required <= columns:
            raise InputError(
                f"{path} has columns that the format {trace_format.name} does not have: {', '.join(unknown)}; remove them, "
                f"or write one of {', '.join(sorted(trace_format.optional - columns))}"
            )
    missing = native.FORMAT.required - columns
    if missing != native.FORMAT.required:
        raise InputError(
            f"{path} lacks the required columns {', '.join(sorted(missing))} of the format laneway; its header is {head.text[:200]!r}"
        )
    known = "".join(f"\n  {each.name}: {each.first_line}" for each in FORMATS)
    raise InputError(
        f"{path} begins with {head.text[:200]!r}, which is not a known format; the formats are:{known}"
    )


def _without_skipped(read: Iterable[JobRead], skipped: Counter[str]) -> Iterator[TraceJob]:
    for job in read:
        if isinstance(job, Skipped):
            skipped[job.reason] += 1
        else:
            yield job


def _first(jobs: Iterable[TraceJob], limit: int, skipped: Counter[str]) -> list[TraceJob]:
    """Return the first jobs by submission without holding the others in memory."""
    total = 0

    def counted() -> Iterator[TraceJob]:
        nonlocal total
        for job in jobs:
            total += 1
            yield job

    first = heapq.nsmallest(limit, counted(), key=_by_submission)
    if total > len(first):
        skipped[f"it comes after the first {limit}"] += total - len(first)
    return first


def _without_repeats(
    path: Path, trace_format: Format, jobs: Iterable[TraceJob], skipped: Counter[str]
) -> list[TraceJob]:
    seen: set[str] = set()
    unique: list[TraceJob] = []
    for job in jobs:
        if job.key not in seen:
            unique.append(job)
        elif trace_format.recorded:
            skipped["it is listed again"] += 1
        else:
            raise InputError(f"{path} lists the job {job.key} twice: write a name of its own for each job")
        seen.add(job.key)
    return unique


def _by_submission(job: TraceJob) -> tuple[float, str]:
    return job.submit_seconds, job.key


def _reasons(skipped: Counter[str]) -> str:
    if not skipped:
        return ""
    return ": skipped are " + ", ".join(f"{count} ({reason})" for reason, count in skipped.items())
