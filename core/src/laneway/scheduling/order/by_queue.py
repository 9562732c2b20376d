"""The common part of order policies that choose each job's queue from that job alone."""

from __future__ import annotations

import math

from laneway.scheduling.order.policy import Rank


class ByQueue:
    """A job's rank depends on that job alone, every change is announced, and jobs of one queue do not preempt one another."""

    __slots__ = ()

    @property
    def relative(self) -> bool:
        """No: a job's own record decides."""
        return False

    @property
    def preempts_by_queue(self) -> bool:
        """Yes: only jobs of a later queue are preempted."""
        return True

    @property
    def bounds_waiting(self) -> bool:
        """No, as in the papers."""
        return False

    @property
    def interval_seconds(self) -> float:
        """Every change of a rank is announced."""
        return math.inf

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Only out of a later queue."""
        return waiting.queue < running.queue
