"""Microsoft's Philly clusters: ``cluster_job_log``, a JSON list of jobs with their attempts.

A job's duration is the sum of its attempts that have a start and an end (``None`` where the log missed one). Its GPUs are those of
the first such attempt. Jobs that failed or were killed count for the time that they ran. The namespace is the virtual cluster
(``vc``). Skipped: jobs without attempts, and jobs that were still running when the log ended (their last attempt has no end).
Source: https://github.com/msr-fiddle/philly-traces (Jeon et al., ATC'19).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import moment
from laneway.simulator.traces.json_list import json_items
from laneway.simulator.traces.rows import read_each
from laneway.simulator.traces.trace_format import (
    NEVER_RAN,
    NO_GPU,
    NO_TIME,
    STILL_RUNNING,
    Format,
    Head,
    JobRead,
    ReadOptions,
    gang,
)


def read_job(job: dict[str, Any]) -> JobRead:
    """Return a job of the log, or why it is skipped.

    Raises:
        ValueError: a field is missing or wrong; the message says which, and what to write.
    """
    attempts = _listed(job, "attempts")
    if not attempts:
        return NEVER_RAN
    if _time(attempts[-1], "end_time") is None:
        return STILL_RUNNING
    ran = [
        (end - start, _gpus(attempt))
        for attempt in attempts
        if (start := _time(attempt, "start_time")) is not None
        and (end := _time(attempt, "end_time")) is not None
        and end > start
    ]
    if not ran:
        return NO_TIME
    if ran[0][1] == 0:
        return NO_GPU
    submitted = _time(job, "submitted_time")
    if submitted is None:
        raise ValueError("submitted_time is missing: write a date and a time, such as 2017-10-09 07:01:55")
    return TraceJob(
        f"{_text(job, 'vc')}/{_text(job, 'jobid')}",
        gang(ran[0][1]),
        submitted,
        sum(seconds for seconds, _ in ran),
        user=_text(job, "user"),
    )


def _gpus(attempt: Any) -> int:
    return sum(len(_listed(server, "gpus")) for server in _listed(attempt, "detail"))


def _listed(item: Any, field: str) -> list[Any]:
    value = _field(item, field)
    if not isinstance(value, list):
        raise ValueError(f"{field} is {value!r}: write a list")
    return value


def _text(item: Any, field: str) -> str:
    value = _field(item, field)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{field} is {value!r}: write a name")
    return value


def _time(item: Any, field: str) -> float | None:
    text = _field(item, field)
    return None if text in (None, "None", "") else moment({field: str(text)}, field)


def _field(item: Any, field: str) -> Any:
    if not isinstance(item, dict):
        raise ValueError(f"{item!r} has no {field}: write an object, {{...}}")
    return item.get(field)


def _recognize(head: Head) -> bool:
    return head.text.lstrip().startswith("[")


def _jobs(path: Path, _: ReadOptions) -> Iterator[JobRead]:
    return read_each(path, json_items(path), read_job, "the job that begins on line")


FORMAT = Format(
    "philly", "a JSON list of jobs with jobid, vc, user, submitted_time and attempts", _recognize, _jobs, True
)
