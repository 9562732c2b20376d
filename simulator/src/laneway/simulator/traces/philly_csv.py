"""Microsoft's Philly clusters, as Pollux publishes them: ``timestamp,duration,num_gpus,gpu_time,cluster``, a job a line.

``timestamp`` is when the job was submitted, ``duration`` is in seconds. The namespace is the (virtual) cluster. Jobs have no
names: they are called after their lines. ``gpu_time`` is the product of two other columns.
Source: https://github.com/petuum/adaptdl, branch ``osdi21-artifact``, ``simulator/traces/philly.csv`` (Qiao et al., OSDI'21).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import moment, name, seconds, whole
from laneway.simulator.traces.form import NO_GPU, NO_TIME, JobRead, ReadOptions, gang
from laneway.simulator.traces.rows import Row, headed_format, headed_rows, numbered, read_each

REQUIRED = frozenset({"timestamp", "duration", "num_gpus", "gpu_time", "cluster"})


def read_row(row: Row) -> JobRead:
    """Return the job of a numbered line, or why it is left out.

    Raises:
        ValueError: a field is wrong; says which, and what to write.
    """
    gpus = whole(row, "num_gpus")
    if gpus == 0:
        return NO_GPU
    duration_seconds = seconds(row, "duration")
    if duration_seconds <= 0:
        return NO_TIME
    key = f"{name(row, 'cluster')}/{row['line']}"
    return TraceJob(key, gang(gpus), moment(row, "timestamp"), duration_seconds)


def _jobs(path: Path, _: ReadOptions) -> Iterator[JobRead]:
    return read_each(path, numbered(headed_rows(path)), read_row)


FORMAT = headed_format("philly-csv", REQUIRED, frozenset(), _jobs, recorded=True)
