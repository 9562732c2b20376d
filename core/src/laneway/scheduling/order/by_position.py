"""The common part of order policies that compare jobs by more than their queues."""

from __future__ import annotations

import math

from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.order.policy import Rank


class ByPosition:
    """A job's rank depends on that job alone, every change is announced, and smaller jobs may pass. A policy says itself who preempts whom."""

    __slots__ = ()

    @property
    def relative(self) -> bool:
        """No: a job's own record decides."""
        return False

    @property
    def preempts_by_queue(self) -> bool:
        """No: the position decides too."""
        return False

    @property
    def bounds_waiting(self) -> bool:
        """No, as in the papers."""
        return False

    @property
    def interval_seconds(self) -> float:
        """Every change of a rank that matters is announced."""
        return math.inf

    def blocks_later_jobs(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """No: jobs that fit may pass."""
        return False
