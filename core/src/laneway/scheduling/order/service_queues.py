"""Queues by attained service, with promotion (Tiresias, NSDI'19, section 3.2.3): the common part of its policies."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import NamedTuple

from laneway.scheduling.model.snapshot import Job, JobState

_SLACK = 1e-3
"""The rounding error of a sum of floats, in seconds or GPU-seconds: on a clock of 1.7e9 s, 64 GPUs times the last bit is
1.5e-5. Without it, a change that is due could seem not to be."""

PAUSED = frozenset({JobState.PAUSED, JobState.OFFLOADED})
"""States in which a job holds memory but does not train."""


class QueuePlace(NamedTuple):
    """A job's queue and its place there."""

    queue: int
    service_gpu_seconds: float
    """Since it was last promoted; 0 where it is promoted now."""

    promoted: bool = False
    until_seconds: float = math.inf
    """When time alone changes this."""


def check(thresholds_gpu_seconds: tuple[float, ...], promotion_factor: float) -> None:
    """Check the parameters of the queues.

    Raises:
        ValueError: says what to write.
    """
    limits = thresholds_gpu_seconds
    if any(limit <= 0 for limit in limits) or list(limits) != sorted(set(limits)):
        raise ValueError(
            f"thresholds_gpu_seconds is {list(limits)}: write GPU-seconds above 0, each larger than the one before"
        )
    if promotion_factor < 0:
        raise ValueError(f"promotion_factor is {promotion_factor}: write 0 for never, or a number above 0")


def queue_place(
    job: Job,
    thresholds_gpu_seconds: tuple[float, ...],
    promotion_factor: float,
    now_seconds: float,
    *,
    within_first: bool = False,
) -> QueuePlace:
    """Return a job's queue, by its service since its last promotion.

    Args:
        job: any.
        thresholds_gpu_seconds: service at which a job falls into the next queue.
        promotion_factor: a job that has waited this many times what it has executed is in the first queue; 0: never.
        now_seconds: the moment.
        within_first: whether jobs of the first queue are promoted too, once they have run: if service counts within a queue, newcomers would pass them indefinitely.
    """
    rate_gpus = job.rate_gpus
    counted_seconds = now_seconds if job.as_of_seconds is None else job.as_of_seconds
    counted = job.attained_service_gpu_seconds - job.service_at_promotion_gpu_seconds
    service = counted + (now_seconds - counted_seconds) * rate_gpus
    queue = bisect_right(thresholds_gpu_seconds, service + _SLACK)
    falls_behind = queue > 0 or (within_first and job.executed_seconds > 0)
    if job.state is JobState.WAITING and falls_behind and promotion_factor:
        since = job.created_seconds if job.waiting_since_seconds is None else job.waiting_since_seconds
        promotion_seconds = since + promotion_factor * job.executed_seconds
        if promotion_seconds - now_seconds <= _SLACK:
            return QueuePlace(0, 0.0, promoted=True)
        return QueuePlace(queue, service, until_seconds=promotion_seconds)
    if not rate_gpus or queue == len(thresholds_gpu_seconds):
        return QueuePlace(queue, service)
    # From when the service was counted, not from now: so the moment is the same float whenever it is asked for.
    left = thresholds_gpu_seconds[queue] - counted
    return QueuePlace(queue, service, until_seconds=counted_seconds + left / rate_gpus)


def arrival_within_queue(job: Job) -> tuple[float, float]:
    """Return a job's place among those of its queue: first those that run, by start, then the others, by arrival."""
    waits = job.state is JobState.WAITING or job.state in PAUSED
    since = job.created_seconds if waits or job.started_seconds is None else job.started_seconds
    return float(waits), since
