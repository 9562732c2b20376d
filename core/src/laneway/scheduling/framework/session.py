"""A session: what the actions of one scheduling cycle share."""

from __future__ import annotations

import math

from laneway.scheduling.framework.statement import Placement, Statement
from laneway.scheduling.framework.unschedulable_cache import UnschedulableCache
from laneway.scheduling.gpus.views import View
from laneway.scheduling.model.plan import Decision
from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.state.scheduler_state import SchedulerState
from laneway.scheduling.state.waiting_queue import EquivalenceClass


class Session:
    """The state, the cache, the time, and the decision so far."""

    def __init__(
        self,
        state: SchedulerState,
        cache: UnschedulableCache,
        now_seconds: float,
        max_starts: float = math.inf,
    ) -> None:
        self.state = state
        self.cache = cache
        self.now_seconds = now_seconds
        self.max_starts = max_starts
        self.policies = state.policies
        self.decision = Decision()
        self.preemptors = 0
        """Jobs for which this cycle preempts others."""

        self.anything_releasing = bool(state.releasing)
        """Whether FUTURE_IDLE has more than IDLE."""

        self.without_idle_gpus: set[EquivalenceClass] = set()
        """Classes that do not fit on idle GPUs. A cycle only takes idle GPUs, so they will not fit later in it either."""

    def statement(self) -> Statement:
        """Open a statement."""
        return Statement(self.state)

    def place(self, job: Job, view: View) -> Placement | None:
        """Ask the placement policy for a place in a view; None: the gang fits nowhere."""
        capacity = self.state.capacity(view)
        return self.policies.placement.place(job, capacity) if capacity.has_enough_gpus(job) else None
