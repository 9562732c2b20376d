"""Gavel's traces: lines of ten fields separated by tabs, without a header, named in :data:`COLUMNS`.

A job is so many steps of a job type on so many GPUs; how long that takes is in a file of measured throughputs (steps a second) by GPU
type, job type and number of GPUs. It is ``ReadOptions.throughputs``, or ``<folder>_throughputs.json`` in or beside the trace's
folder, or the only ``*_throughputs.json`` there. ``ReadOptions.gpu_type`` chooses the GPUs. Priority weights and objectives
(``SLO``) are not used. Jobs have no names: they are called after their lines.
Source: https://github.com/stanford-futuredata/gavel (Narayanan et al., OSDI'20), ``scheduler/utils.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from laneway.simulator.trace import TraceError, TraceJob
from laneway.simulator.traces.fields import name, number, seconds, whole
from laneway.simulator.traces.form import Format, Head, JobRead, ReadOptions, gang
from laneway.simulator.traces.rows import Row, bare_rows, numbered, read_each

COLUMNS = (
    "job_type",
    "command",
    "working_directory",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "priority_weight",
    "SLO",
    "arrival_time",
)

StepsPerSecond = Mapping[str, float]
"""By job type and number of GPUs, as Gavel writes them: ``('ResNet-18 (batch size 64)', 2)``."""


def read_row(row: Row, speeds: StepsPerSecond, gpu_type: str) -> TraceJob:
    """Return the job of a numbered line.

    Raises:
        ValueError: a field is wrong, or nobody measured such a job; says which, and what to write.
    """
    job_type, gpus = name(row, "job_type"), whole(row, "scale_factor")
    speed = speeds.get(f"('{job_type}', {gpus})", 0.0)
    if speed <= 0:
        raise ValueError(
            f"job_type is {job_type!r} on {gpus} GPUs, of which there is no throughput on {gpu_type}: choose "
            "another gpu_type, or other throughputs"
        )
    return TraceJob(
        f"default/{row['line']}",
        gang(gpus),
        seconds(row, "arrival_time"),
        number(row, "total_steps") / speed,
        model=job_type,
    )


def read_throughputs(path: Path, gpu_type: str) -> StepsPerSecond:
    """Return the steps a second that each job alone makes on GPUs of a type.

    Raises:
        TraceError: the file cannot be read, or has no such type.
    """
    try:
        by_type = json.loads(path.read_text(encoding="utf-8"))
        if gpu_type not in by_type:
            raise TraceError(
                f"{path} has no GPU type {gpu_type!r}: choose one of {', '.join(sorted(by_type))}"
            )
        return {job: float(speeds["null"]) for job, speeds in by_type[gpu_type].items()}
    except OSError as error:
        raise TraceError(f"cannot read the throughputs {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(
            f'{path} is no file of throughputs: write {{"v100": {{"(\'<job type>\', <GPUs>)": {{"null": <steps a second>}}}}}}'
        ) from error


def find_throughputs(trace: Path) -> Path:
    """Return the file of throughputs that belongs to a trace.

    Raises:
        TraceError: there is none, or one cannot tell which.
    """
    folder = trace.absolute().parent
    for place in (folder, folder.parent):
        named = place / f"{folder.name}_throughputs.json"
        if named.is_file():
            return named
        found = sorted(place.glob("*_throughputs.json"))
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(path.name for path in found)
            raise TraceError(f"{trace}: which of {names} are its throughputs? Choose one with throughputs")
    raise TraceError(
        f"{trace} says how many steps each job makes, not how long: put {folder.name}_throughputs.json "
        "beside it, or choose a file with throughputs"
    )


def _recognise(head: Head) -> bool:
    fields = head.text.rstrip("\r\n").split("\t")
    return len(fields) == len(COLUMNS) and all(re.fullmatch(r"\d+", fields[index]) for index in (5, 6))


def _jobs(path: Path, options: ReadOptions) -> Iterator[JobRead]:
    speeds = read_throughputs(options.throughputs or find_throughputs(path), options.gpu_type)
    read = partial(read_row, speeds=speeds, gpu_type=options.gpu_type)
    return read_each(path, numbered(bare_rows(path, COLUMNS, "\t")), read)


FORMAT = Format("gavel", f"without a header, separated by tabs: {', '.join(COLUMNS)}", _recognise, _jobs)
