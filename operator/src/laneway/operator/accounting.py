"""Attained service: GPU-seconds that a job has had, counted across restarts of the operator.

The status holds the sum up to ``serviceCountedAt``; while the job runs, the time since then is added when the status is
written or read. A share of s percent counts as s/100 of a GPU (Tiresias, NSDI'19, section 3.3: service = GPUs × time).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from laneway.api import quantity
from laneway.api.clock_text import to_seconds, to_text
from laneway.api.training_job import TrainingJobStatus, WorkerPlacementStatus


def held_gpus(placement: Iterable[WorkerPlacementStatus]) -> float:
    """Return how many GPUs a placement holds; more than 100 percent of a GPU (overcommit) is one GPU."""
    return sum(len(worker.gpus) * min(worker.share_percent, 100) / 100 for worker in placement)


def counted(status: TrainingJobStatus, now_seconds: float) -> TrainingJobStatus:
    """Return the status with service counted up to now, or unchanged where the job does not run."""
    if status.service_counted_at is None:
        return status
    elapsed_seconds = max(0.0, now_seconds - to_seconds(status.service_counted_at))
    return status.model_copy(
        update={
            "executed": _plus(status.executed, elapsed_seconds),
            "attained_service": _plus(status.attained_service, elapsed_seconds * held_gpus(status.placement)),
            "service_counted_at": to_text(max(now_seconds, to_seconds(status.service_counted_at))),
        }
    )


def stopped(status: TrainingJobStatus, end_seconds: float) -> TrainingJobStatus:
    """Return the status with service counted up to the end of the run, and no further."""
    return counted(status, end_seconds).model_copy(update={"service_counted_at": None})


def started(status: TrainingJobStatus, start_seconds: float) -> TrainingJobStatus:
    """Return the status with service counted from the start of a run on."""
    return status.model_copy(update={"service_counted_at": to_text(start_seconds)})


def attained_gpu_seconds(status: TrainingJobStatus) -> float:
    """Return the service counted so far."""
    return float(quantity.parse(status.attained_service))


def executed_seconds(status: TrainingJobStatus) -> float:
    """Return the running time counted so far."""
    return float(quantity.parse(status.executed))


def _plus(text: str, more: float) -> Any:
    return quantity.format_seconds(float(quantity.parse(text)) + more)
