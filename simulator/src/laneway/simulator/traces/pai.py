"""Alibaba's PAI cluster (GPU trace 2020): ``pai_task_table.csv``, a task a line, as published without a header, or with it.

A task is a gang of ``inst_num`` workers with ``plan_gpu`` percent of a GPU each; more than 100 percent means whole GPUs, rounded up.
Tasks of one job that use GPUs (a chief and its workers, for example) become separate jobs, because a gang's workers are identical. A
task that does not run to its end (``Running``, ``Waiting``, no end) or uses no GPU (parameter servers) is skipped; failed tasks count
for the time that they ran. ``gpu_type`` is where the task ran, not what it requested, and is not used.

``pai_job_table.csv`` (also without a header) has a job's submission and user. It is read if it lies beside the task table; otherwise
a task counts as submitted when it started.
Source: https://github.com/alibaba/clusterdata, ``cluster-trace-gpu-v2020`` (Weng et al., NSDI'22).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path

from laneway.scheduling import Demand
from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import name, number, seconds
from laneway.simulator.traces.rows import Row, bare_rows, read_each
from laneway.simulator.traces.trace_format import (
    NEVER_RAN,
    NO_GPU,
    NO_TIME,
    STILL_RUNNING,
    Format,
    Head,
    JobRead,
    ReadOptions,
)

COLUMNS = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
JOB_COLUMNS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
JOB_TABLE = "pai_job_table.csv"

Submissions = Mapping[str, tuple[str, float | None]]
"""By job name: the user, and the time of submission."""


def read_row(row: Row, submissions: Submissions) -> JobRead:
    """Return the job of a line of the task table, or why it is skipped.

    Raises:
        ValueError: a field is wrong; the message says which, and what to write.
    """
    if not row["plan_gpu"] or number(row, "plan_gpu") <= 0:
        return NO_GPU
    if not row["start_time"] or not row["inst_num"]:
        return NEVER_RAN
    if not row["end_time"] or row["status"] in ("Running", "Waiting"):
        return STILL_RUNNING
    start_seconds = seconds(row, "start_time")
    duration_seconds = seconds(row, "end_time") - start_seconds
    if duration_seconds <= 0:
        return NO_TIME
    job = name(row, "job_name")
    user, submit_seconds = submissions.get(job, ("", None))
    return TraceJob(
        f"default/{job}.{name(row, 'task_name')}",
        _demand(number(row, "inst_num"), number(row, "plan_gpu")),
        start_seconds if submit_seconds is None else min(submit_seconds, start_seconds),
        duration_seconds,
        user=user,
    )


@lru_cache(maxsize=4096)
def _demand(instances: float, gpu_percent: float) -> Demand:
    if instances != int(instances):
        raise ValueError(f"inst_num is {instances}: write a whole number")
    percent = -int(-gpu_percent // 1)
    if percent <= 100:
        return Demand(int(instances), share_percent=percent)
    return Demand(int(instances), gpus_per_worker=-(-percent // 100))


def _submissions(folder: Path) -> Submissions:
    table = folder / JOB_TABLE
    if not table.is_file():
        return {}
    return dict(read_each(table, _without_header(table, JOB_COLUMNS), _submission))


def _submission(row: Row) -> tuple[str, tuple[str, float | None]]:
    return row["job_name"], (row["user"], seconds(row, "start_time") if row["start_time"] else None)


def _without_header(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, Row]]:
    return ((line, row) for line, row in bare_rows(path, columns) if row["job_name"] != "job_name")


def _recognize(head: Head) -> bool:
    return head.columns == COLUMNS or (
        len(head.columns) == len(COLUMNS)
        and head.columns[3].isalpha()
        and all(re.fullmatch(r"[\d.]*", head.columns[index]) for index in (2, 4, 5, 6, 7, 8))
    )


def _jobs(path: Path, _: ReadOptions) -> Iterator[JobRead]:
    read = partial(read_row, submissions=_submissions(path.parent))
    return read_each(path, _without_header(path, COLUMNS), read)


FORMAT = Format("pai", f"without a header: {','.join(COLUMNS)}", _recognize, _jobs, recorded=True)
