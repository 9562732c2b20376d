"""SenseTime's Helios clusters: ``cluster_log.csv``, a job a line, as Slurm recorded it.

``duration`` is seconds from start to end; jobs that failed or were cancelled count as long as they ran. The namespace is the
virtual cluster (``vc``). Jobs without GPUs, and those that never ran, are left out.
Source: https://github.com/S-Lab-System-Group/HeliosData (Hu et al., SC'21).
"""

from __future__ import annotations

from collections.abc import Mapping

from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import moment, name, seconds, whole
from laneway.simulator.traces.form import NO_GPU, NO_TIME, JobRead, gang
from laneway.simulator.traces.rows import each_line, headed_format

REQUIRED = frozenset({"job_id", "user", "vc", "gpu_num", "submit_time", "duration"})
OPTIONAL = frozenset({"cpu_num", "node_num", "state", "start_time", "end_time", "queue"})


def read_row(row: Mapping[str, str]) -> JobRead:
    """Return the job of a line, or why it is left out.

    Raises:
        ValueError: a field is wrong; says which, and what to write.
    """
    gpus = whole(row, "gpu_num")
    if gpus == 0:
        return NO_GPU
    duration_seconds = seconds(row, "duration")
    if duration_seconds <= 0:
        return NO_TIME
    return TraceJob(
        f"{name(row, 'vc')}/{name(row, 'job_id')}",
        gang(gpus),
        moment(row, "submit_time"),
        duration_seconds,
        user=row["user"],
    )


FORMAT = headed_format("helios", REQUIRED, OPTIONAL, each_line(read_row), recorded=True)
