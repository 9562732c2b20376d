"""Gavel's traces: lines of ten tab-separated fields without a header; :data:`COLUMNS` names them.

A job is a number of steps of a job type on a number of GPUs. A file of measured throughputs gives the steps per second by GPU type,
job type and number of GPUs: ``ReadOptions.throughputs``, or ``<folder>_throughputs.json`` in or beside the trace's folder, or the
only ``*_throughputs.json`` there. ``ReadOptions.gpu_type`` chooses the GPUs. Priority weights and objectives (``SLO``) are not used.
Jobs have no names; their line numbers stand in.
Source: https://github.com/stanford-futuredata/gavel (Narayanan et al., OSDI'20), ``scheduler/utils.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from laneway.simulator.gavel_throughputs import ALONE, read_throughputs
from laneway.simulator.input_file import InputError
from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import name, number, seconds, whole
from laneway.simulator.traces.rows import Row, bare_rows, numbered, read_each
from laneway.simulator.traces.trace_format import Format, Head, JobRead, ReadOptions, gang

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
"""By job type and number of GPUs in Gavel's notation: ``('ResNet-18 (batch size 64)', 2)``."""


def read_row(row: Row, speeds: StepsPerSecond, gpu_type: str) -> TraceJob:
    """Return the job of a numbered line.

    Raises:
        ValueError: a field is wrong, or such a job was not measured; the message says which, and what to write.
    """
    job_type, gpus = name(row, "job_type"), whole(row, "scale_factor")
    speed = speeds.get(f"('{job_type}', {gpus})", 0.0)
    if speed <= 0:
        raise ValueError(
            f"job_type is {job_type!r} on {gpus} GPUs, which has no throughput on {gpu_type}: choose another "
            "gpu_type, or other throughputs"
        )
    return TraceJob(
        f"default/{row['line']}",
        gang(gpus),
        seconds(row, "arrival_time"),
        number(row, "total_steps") / speed,
        model=job_type,
    )


def steps_per_second(path: Path, gpu_type: str) -> StepsPerSecond:
    """Return the steps per second of each job alone on GPUs of a type.

    Raises:
        InputError: the file cannot be read, or does not have this type.
    """
    throughputs = read_throughputs(path)
    if gpu_type not in throughputs:
        raise InputError(
            f"{path} has no GPU type {gpu_type!r}: choose one of {', '.join(sorted(throughputs))}"
        )
    try:
        return {job: float(str(speeds[ALONE])) for job, speeds in throughputs[gpu_type].items()}
    except (ValueError, KeyError) as error:
        raise InputError(f"{path}: a job type on {gpu_type} has no throughput alone ({ALONE!r})") from error


def find_throughputs(trace: Path) -> Path:
    """Return the file of throughputs that belongs to a trace.

    Raises:
        InputError: there is none, or more than one.
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
            raise InputError(f"{trace}: which of {names} are its throughputs? Choose one with throughputs")
    raise InputError(
        f"{trace} gives each job's steps but not its duration: put {folder.name}_throughputs.json beside it, or choose a "
        "file with throughputs"
    )


def _recognize(head: Head) -> bool:
    fields = head.text.rstrip("\r\n").split("\t")
    return len(fields) == len(COLUMNS) and all(re.fullmatch(r"\d+", fields[index]) for index in (5, 6))


def _jobs(path: Path, options: ReadOptions) -> Iterator[JobRead]:
    speeds = steps_per_second(options.throughputs or find_throughputs(path), options.gpu_type)
    read = partial(read_row, speeds=speeds, gpu_type=options.gpu_type)
    return read_each(path, numbered(bare_rows(path, COLUMNS, "\t")), read)


FORMAT = Format("gavel", f"without a header, separated by tabs: {', '.join(COLUMNS)}", _recognize, _jobs)
