"""A session: what the actions of one scheduling cycle share."""

from __future__ import annotations

import math
from typing import NamedTuple

from laneway.scheduling.framework.statement import Placement, Statement
from laneway.scheduling.framework.unschedulable_cache import UnschedulableCache
from laneway.scheduling.gpus.views import IDLE, View
from laneway.scheduling.model.plan import Decision
from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.placement.policy import SharesGPUs
from laneway.scheduling.state.ranking import SortKey
from laneway.scheduling.state.scheduler_state import SchedulerState
from laneway.scheduling.state.waiting_queue import EquivalenceClass


class Reservation(NamedTuple):
    """The nodes on which a waiting job will start."""

    sort_key: SortKey
    nodes: frozenset[int]
    backfill: bool
    """Whether later jobs that may be preempted may use them until then."""


WHOLE_PERCENT = 100

MAX_PREEMPTORS = 16
"""Jobs for which one cycle preempts others. The next cycle follows at once and preempts for further jobs. The limit keeps a
cycle short, so that its snapshot stays current."""


class Session:
    """The state, the cache, the time, and the decision so far."""

    def __init__(
        self,
        state: SchedulerState,
        cache: UnschedulableCache,
        now_seconds: float,
        max_starts: float = math.inf,
        max_preemptors: int = MAX_PREEMPTORS,
    ) -> None:
        self.state = state
        self.cache = cache
        self.now_seconds = now_seconds
        self.max_starts = max_starts
        self.max_preemptors = max_preemptors
        self.policies = state.policies
        self.decision = Decision()
        self.preemptors = 0
        """Jobs for which this cycle preempts others."""

        self.reservations: list[Reservation] = []

        self.anything_releasing = bool(state.releasing)
        """Whether FUTURE_IDLE has more than IDLE."""

        self.without_idle_gpus: set[EquivalenceClass] = set()
        """Classes that do not fit on idle GPUs. A cycle only takes idle GPUs, so they will not fit later in it either."""

    def statement(self) -> Statement:
        """Open a statement."""
        return Statement(self.state)

    def closed_nodes(self, job: Job, sort_key: SortKey) -> frozenset[int]:
        """Return the nodes that a job is kept off by the reservations of jobs before it."""
        return frozenset().union(
            *(
                each.nodes
                for each in self.reservations
                if each.sort_key < sort_key and not (each.backfill and job.preemptible)
            )
        )

    def first_reserved(self) -> str:
        """Return the first job that has a reservation."""
        return min(self.reservations).sort_key[-1]

    def close_nodes(self, job: Job, sort_key: SortKey) -> None:
        """Let no later job pass one on the nodes that it could use."""
        allocations, avoided = self.state.allocations, self.state.avoided.get(job.key, frozenset())
        classes = [gpu_class for gpu_class, _ in self.state.capacity(IDLE).choices(job)]
        nodes = frozenset(
            node
            for node in range(len(allocations.nodes))
            if node not in avoided and any(allocations.usable_on(node, each) for each in classes)
        )
        self.reservations.append(Reservation(sort_key, nodes, backfill=False))

    def can_resume(self, key: str, view: View) -> bool:
        """Whether a paused job can take turns again where it is: there are turns and memory for it, and it may join those that have come
        there since."""
        policy = self.policies.placement
        # The first question is the cheaper one, and mostly answered with no.
        may_join = not isinstance(policy, SharesGPUs) or self._may_join(policy, key, view)
        return may_join and self.state.allocations.can_resume(key, view)

    def _may_join(self, policy: SharesGPUs, key: str, view: View) -> bool:
        """Whether a paused job may take turns beside those that do on its GPUs."""
        allocations, asked = self.state.allocations, set()
        entry = allocations.of_job[key]
        for number, percent in entry.shares:
            if allocations.turns_percent(number, view) + percent <= WHOLE_PERCENT:
                continue
            gpu, others = allocations.gpus[number], allocations.sharers(number, view)
            group = (gpu.model, *(other.key for other in others))
            if gpu.foreign:
                return False
            if group not in asked and not policy.may_join(entry.job, others, self.state.speeds.on(gpu.model)):
                return False
            asked.add(group)
        return True

    def place(self, job: Job, view: View) -> Placement | None:
        """Ask the placement policy for a place in a view; None: the gang fits nowhere."""
        capacity = self.state.capacity(view)
        return self.policies.placement.place(job, capacity) if capacity.has_enough_gpus(job) else None
