"""When an eviction would lose too much work, because the job has not saved it."""

from __future__ import annotations

import math
from typing import Final

from laneway.scheduling.model.snapshot import Job, JobState

MOST_LOST_SECONDS: Final = 600.0
"""The most unsaved work that an eviction may lose, but for long runs: the interval of ``laneway.client.Checkpoint``, and twelve times what an
eviction costs a job that saves (50 s). Who saves more often loses less; who saves less often is not evicted between saves."""


_LOST_PART: Final = 0.1
"""An eviction may lose more after a long run, as far as that is this part of it. Else jobs that save once an hour could be evicted
in a few minutes of each hour only, and a gang would hardly ever find all of its GPUs at the same time."""


def evictable_until_seconds(job: Job) -> float:
    """Return until when an eviction of a job loses little; minus infinity: it never does.

    A job whose unsaved work is unknown is taken for one that saves when it is told to stop.
    """
    if job.starts_over:
        return -math.inf
    if job.unsaved_seconds is None:
        return math.inf
    if job.as_of_seconds is None or job.state is not JobState.RUNNING:
        return math.inf if job.unsaved_seconds < MOST_LOST_SECONDS else -math.inf
    until_seconds = job.as_of_seconds + MOST_LOST_SECONDS - job.unsaved_seconds
    if job.started_seconds is None:
        return until_seconds
    saved_seconds = job.as_of_seconds - job.unsaved_seconds  # what it loses grows from then on
    share_until_seconds = (saved_seconds - _LOST_PART * job.started_seconds) / (1 - _LOST_PART)
    return max(until_seconds, share_until_seconds)


def may_be_evicted(job: Job, preemptor_priority: int, now_seconds: float) -> bool:
    """Whether a job may be evicted for another one: if it loses little, or the other one is of a higher priority class."""
    return job.priority < preemptor_priority or now_seconds < evictable_until_seconds(job)
