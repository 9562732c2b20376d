"""Alibaba's PAI cluster (GPU trace 2020): ``pai_task_table.csv``, a task a line, as published without a header, or with it.

A task is ``inst_num`` instances with ``plan_gpu`` percent of a GPU each: a gang of so many workers; over 100 percent means whole
GPUs, rounded up. Tasks of one job that use GPUs (a chief and its workers, say) are jobs of their own here, for a gang's workers
are all alike. A task that does not run to its end (``Running``, ``Waiting``, no end) or uses no GPU (parameter servers) is
left out; failed ones count as long as they ran. ``gpu_type`` is where it ran, not what it asked for, and is not used.

When a job was submitted, and by whom, is in ``pai_job_table.csv`` (also without a header): where that lies beside the task table it
is read too; else a task counts as submitted when it started.
Source: https://github.com/alibaba/clusterdata, ``cluster-trace-gpu-v2020`` (Weng et al., NSDI'22).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path

from laneway.scheduling import Demand
from laneway.simulator.trace import TraceError, TraceJob
from laneway.simulator.traces.fields import name, number, seconds
from laneway.simulator.traces.form import (
    NEVER_RAN,
    NO_GPU,
    NO_TIME,
    STILL_RAN,
    Format,
    Head,
    JobRead,
    ReadOptions,
)
from laneway.simulator.traces.rows import Row, bare_rows

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
"""By job name: who submitted it, and when."""


def read_row(row: Row, submissions: Submissions) -> JobRead:
    """Return the job of a line of the task table, or why it is left out.

    Raises:
        ValueError: a field is wrong; says which, and what to write.
    """
    if not row["plan_gpu"] or number(row, "plan_gpu") <= 0:
        return NO_GPU
    if not row["start_time"] or not row["inst_num"]:
        return NEVER_RAN
    if not row["end_time"] or row["status"] in ("Running", "Waiting"):
        return STILL_RAN
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
    found: dict[str, tuple[str, float | None]] = {}
    for line, row in bare_rows(table, JOB_COLUMNS):
        if row["job_name"] == "job_name":
            continue  # a header
        try:
            found[row["job_name"]] = (row["user"], seconds(row, "start_time") if row["start_time"] else None)
        except ValueError as error:
            raise TraceError(f"{table}, line {line}: {error}") from error
    return found


def _recognise(head: Head) -> bool:
    return head.columns == COLUMNS or (
        len(head.columns) == len(COLUMNS)
        and head.columns[3].isalpha()
        and all(re.fullmatch(r"[\d.]*", head.columns[index]) for index in (2, 4, 5, 6, 7, 8))
    )


def _jobs(path: Path, _: ReadOptions) -> Iterator[JobRead]:
    read = partial(read_row, submissions=_submissions(path.parent))
    for line, row in bare_rows(path, COLUMNS):
        if tuple(row.values()) == COLUMNS:
            continue
        try:
            yield read(row)
        except ValueError as error:
            raise TraceError(f"{path}, line {line}: {error}") from error


FORMAT = Format("pai", f"without a header: {','.join(COLUMNS)}", _recognise, _jobs, recorded=True)
