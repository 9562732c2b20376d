"""The common part of order policies that choose each job's queue from that job alone."""

from __future__ import annotations

from laneway.scheduling.order.by_position import ByPosition
from laneway.scheduling.order.policy import Rank


class ByQueue(ByPosition):
    """A job's rank depends on that job alone, every change is announced, and jobs of one queue do not preempt one another."""

    __slots__ = ()

    @property
    def preempts_by_queue(self) -> bool:
        """Yes: only jobs of a later queue are preempted."""
        return True

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Only out of a later queue."""
        return waiting.queue < running.queue
