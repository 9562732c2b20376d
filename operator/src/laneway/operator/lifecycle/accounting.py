"""Attained service: GPU-seconds that a job has had, counted across restarts of the operator.

The status holds the sum up to ``serviceCountedAt``; while the job runs, the time since then is added when the status is
written or read. A share of s percent counts as s/100 of a GPU (Tiresias, NSDI'19, section 3.3: service = GPUs × time).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import TrainingJobStatus, WorkerPlacementStatus
from laneway.scheduling.model.plan import NOT_COMPETING, WaitingCode

_COMPETING = frozenset(str(code) for code in WaitingCode if code not in NOT_COMPETING)


def held_gpus(placement: Iterable[WorkerPlacementStatus]) -> float:
    """Return how many GPUs a placement holds; more than 100 percent of a GPU (overcommit) is one GPU."""
    return sum(len(worker.gpus) * min(worker.share_percent, 100) / 100 for worker in placement)


def counted(status: TrainingJobStatus, now_seconds: float) -> TrainingJobStatus:
    """Return the status with service counted up to now, or unchanged where the job does not run."""
    if status.service_counted_at is None:
        return status
    elapsed_seconds = max(0.0, now_seconds - parse_time(status.service_counted_at))
    return status.model_copy(
        update={
            "executed_milliseconds": status.executed_milliseconds + _milliseconds(elapsed_seconds),
            "attained_service_gpu_milliseconds": status.attained_service_gpu_milliseconds
            + _milliseconds(elapsed_seconds * held_gpus(status.placement)),
            "service_counted_at": format_time(max(now_seconds, parse_time(status.service_counted_at))),
        }
    )


def counted_at_seconds(status: TrainingJobStatus) -> float | None:
    """Return up to when service is counted in the status; None where it does not grow."""
    return None if status.service_counted_at is None else parse_time(status.service_counted_at)


def stopped(status: TrainingJobStatus, end_seconds: float) -> TrainingJobStatus:
    """Return the status with service counted up to the end of the run, and no further."""
    return counted(status, end_seconds).model_copy(update={"service_counted_at": None})


def started(status: TrainingJobStatus, start_seconds: float) -> TrainingJobStatus:
    """Return the status with service counted from the start of a run on."""
    return status.model_copy(update={"service_counted_at": format_time(start_seconds)})


def wait_counted(
    status: TrainingJobStatus, now_seconds: float, stored: TrainingJobStatus | None = None
) -> TrainingJobStatus:
    """Return the status with its wait counted: from now on if the job begins to wait for others, up to now if it no longer does.

    A stored status that already waits for others without a count is of an operator that counted no waits: then the whole wait counts.
    """
    if competes(status) is (status.wait_counted_at is not None):
        return status
    if status.wait_counted_at is None:
        known = stored.waiting if stored is not None and competes(stored) else None
        since = (known.since if known is not None else None) or format_time(now_seconds)
        return status.model_copy(update={"wait_counted_at": since})
    elapsed_seconds = max(0.0, now_seconds - parse_time(status.wait_counted_at))
    waited_milliseconds = status.waited_milliseconds + _milliseconds(elapsed_seconds)
    return status.model_copy(update={"wait_counted_at": None, "waited_milliseconds": waited_milliseconds})


def competes(status: TrainingJobStatus) -> bool:
    """Whether a job waits, or is paused, because of other jobs."""
    holds = bool(status.placement) and status.preemption is None
    return status.waiting is not None and not holds and status.waiting.reason in _COMPETING


def competes_since_seconds(status: TrainingJobStatus) -> float | None:
    """Return since when a waiting job competes; None: since its creation; infinite: it does not."""
    if status.wait_counted_at is not None:
        return parse_time(status.wait_counted_at)
    return math.inf if status.attempt or (status.waiting and not competes(status)) else None


def waited_before_seconds(status: TrainingJobStatus) -> float:
    """Return the wait counted so far."""
    return status.waited_milliseconds / 1000


def attained_gpu_seconds(status: TrainingJobStatus) -> float:
    """Return the service counted so far."""
    return status.attained_service_gpu_milliseconds / 1000


def executed_seconds(status: TrainingJobStatus) -> float:
    """Return the running time counted so far."""
    return status.executed_milliseconds / 1000


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
