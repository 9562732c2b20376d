"""Read a trace file in whichever format its beginning shows."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from laneway.simulator.trace import TraceError, TraceJob, TraceRead
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
from laneway.simulator.traces.form import Format, Head, JobRead, LeftOut, ReadOptions

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
"""All that can be read. No file is of two of them."""

_HEAD_CHARACTERS = 1 << 16


def read_trace(path: Path, options: ReadOptions | None = None) -> tuple[TraceJob, ...]:
    """Return the jobs of a trace file, ordered by submission; :func:`load_trace` also says what was left out.

    Raises:
        TraceError: as ``load_trace`` does.
    """
    return load_trace(path, options).jobs


def load_trace(path: Path, options: ReadOptions | None = None) -> TraceRead:
    """Return the jobs of a trace file, its format, and how many jobs of it were left out, and why.

    Raises:
        TraceError: the file cannot be read, is of no known format, or something in it is wrong; the message names file,
            line and column and says what to write.
    """
    options = options or ReadOptions()
    form = _recognised(path)
    left_out: Counter[str] = Counter()
    kept = _kept(form.jobs(path, options), left_out)
    first = kept if options.limit is None else _first(kept, options.limit, left_out)
    read = _once(path, form, sorted(first, key=_by_submission), left_out)
    if not read:
        raise TraceError(f"{path} has no jobs to simulate" + _reasons(left_out))
    if form.recorded:
        begin_seconds = read[0].submit_seconds
        read = [replace(job, submit_seconds=job.submit_seconds - begin_seconds) for job in read]
    return TraceRead(tuple(read), form.name, dict(left_out))


def _recognised(path: Path) -> Format:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            head = Head(file.readline(_HEAD_CHARACTERS).rstrip("\r\n"))
    except OSError as error:
        raise TraceError(f"cannot read the trace {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path} is no text file: {error}") from error
    for form in FORMATS:
        if form.recognise(head):
            return form
    for form in FORMATS:
        unknown = sorted(frozenset(head.columns) - form.required - form.optional)
        if form.required and form.required <= frozenset(head.columns):
            raise TraceError(
                f"{path} has columns that the format {form.name} has not: {', '.join(unknown)}; leave them out, "
                f"or write one of {', '.join(sorted(form.optional - frozenset(head.columns)))}"
            )
    known = "".join(f"\n  {form.name}: {form.looks}" for form in FORMATS)
    raise TraceError(f"{path} begins with {head.text[:200]!r}, which is no known format; there are:{known}")


def _kept(read: Iterable[JobRead], left_out: Counter[str]) -> Iterator[TraceJob]:
    for job in read:
        if isinstance(job, LeftOut):
            left_out[job.reason] += 1
        else:
            yield job


def _first(jobs: Iterable[TraceJob], limit: int, left_out: Counter[str]) -> list[TraceJob]:
    """Return the first jobs by submission, without holding the others in memory."""
    counted = Counter[str]()

    def counting() -> Iterator[TraceJob]:
        for job in jobs:
            counted["all"] += 1
            yield job

    first = heapq.nsmallest(limit, counting(), key=_by_submission)
    if counted["all"] > len(first):
        left_out[f"it comes after the first {limit}"] += counted["all"] - len(first)
    return first


def _once(path: Path, form: Format, jobs: Iterable[TraceJob], left_out: Counter[str]) -> list[TraceJob]:
    seen: set[str] = set()
    once: list[TraceJob] = []
    for job in jobs:
        if job.key not in seen:
            once.append(job)
        elif form.recorded:
            left_out["it is listed again"] += 1
        else:
            raise TraceError(f"{path} lists the job {job.key} twice")
        seen.add(job.key)
    return once


def _by_submission(job: TraceJob) -> tuple[float, str]:
    return job.submit_seconds, job.key


def _reasons(left_out: Counter[str]) -> str:
    return (
        ": left out are " + ", ".join(f"{count} ({why})" for why, count in left_out.items())
        if left_out
        else ""
    )
