"""The CSV of Muri's simulator: Tiresias' columns in milliseconds, and the time of an iteration on each resource.

``iteration_time`` is an iteration alone. ``resource_time_1`` is its computation on the GPU, ``resource_time_2`` its use of the network
(0 on a single GPU). ``resource_time_0`` comes before: reading from storage and preparing on the CPU (simulating, for reinforcement
learning). Muri has four resources but three columns: it interleaves ``resource_time_0`` over two of its four stages. Here half of
it counts as storage and half as CPU. The file has no memory sizes: they are 0.

The file has two durations that differ: ``duration``, which Tiresias' simulator uses, and ``iterations`` × ``iteration_time`` ×
:data:`PROFILING_RATIO`, which Muri's own simulator uses (9 % more GPU time in the published cluster trace).
``ReadOptions.durations`` chooses.

``priority`` is random, for AntMan's two classes of jobs, and is not used.
Source: https://github.com/pkusys/Muri (SIGCOMM'22), ``simulator/jobs.py``, ``simulator/matching.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from laneway.scheduling import Profile
from laneway.scheduling.model.snapshot import StageSeconds
from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import milliseconds, name, number, whole
from laneway.simulator.traces.rows import headed_format, headed_rows, read_each
from laneway.simulator.traces.trace_format import JobRead, ReadOptions, gang

REQUIRED = frozenset(
    {
        "job_id",
        "num_gpu",
        "submit_time",
        "iterations",
        "model_name",
        "duration",
        "iteration_time",
        "resource_time_0",
        "resource_time_1",
        "resource_time_2",
    }
)
OPTIONAL = frozenset({"batch_size", "interval", "priority"})

PROFILING_RATIO = 1.015
"""Muri's profiler lengthens every iteration by this factor (``itertime_overhead_list`` in ``jobs.py``)."""


def read_row(row: Mapping[str, str], durations: str = "column") -> TraceJob:
    """Return the job of a line.

    Args:
        row: the line's fields.
        durations: see ``ReadOptions.durations``.

    Raises:
        ValueError: a field is wrong; the message says which, and what to write.
    """
    iteration_seconds = milliseconds(row, "iteration_time")
    before_seconds, gpu_seconds, network_seconds = (
        milliseconds(row, f"resource_time_{index}") for index in range(3)
    )
    return TraceJob(
        f"default/{name(row, 'job_id')}",
        gang(whole(row, "num_gpu")),
        milliseconds(row, "submit_time"),
        (
            number(row, "iterations") * iteration_seconds * PROFILING_RATIO
            if durations == "iterations"
            else milliseconds(row, "duration")
        ),
        profile=Profile(
            persistent_bytes=0,
            ephemeral_bytes=0,
            iteration_seconds=iteration_seconds,
            stages=StageSeconds(before_seconds / 2, before_seconds / 2, gpu_seconds, network_seconds),
        ),
        model=row["model_name"],
    )


def _jobs(path: Path, options: ReadOptions) -> Iterator[JobRead]:
    return read_each(path, headed_rows(path), partial(read_row, durations=options.durations))


FORMAT = headed_format("muri", REQUIRED, OPTIONAL, _jobs)
