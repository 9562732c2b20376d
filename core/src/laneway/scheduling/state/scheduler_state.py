"""What the scheduler keeps between cycles: jobs, their places in the order, and their allocations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from laneway.scheduling.config.stages import Policies
from laneway.scheduling.fairness.claims import (
    Claim,
    claim,
    first_since_seconds,
    quantum_seconds,
)
from laneway.scheduling.fairness.contention import Contention, Group
from laneway.scheduling.gpus.allocation import AllocationStatus
from laneway.scheduling.gpus.allocations import Allocations
from laneway.scheduling.gpus.capacity import ClusterCapacity
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.gpus.views import IDLE, Level, View
from laneway.scheduling.model.gpu_class import suitable
from laneway.scheduling.model.plan import PolicyFailure, PreemptionAction
from laneway.scheduling.model.shared_speeds import SpeedsByModel
from laneway.scheduling.model.snapshot import Job, JobState, Node
from laneway.scheduling.model.unsaved_work import evictable_until_seconds
from laneway.scheduling.order.policy import OrderPolicy
from laneway.scheduling.state.measured_speeds import MeasuredSpeeds
from laneway.scheduling.state.min_runtime import MinRuntimes
from laneway.scheduling.state.model_round import ModelRound
from laneway.scheduling.state.preemptible import Preemptible
from laneway.scheduling.state.ranking import FIRST, Ranking, SortKey
from laneway.scheduling.state.timers import Timers
from laneway.scheduling.state.waiting_queue import WaitingQueue

PAUSED = (JobState.PAUSED, JobState.OFFLOADED)
"""States in which a job keeps its placement and takes no turns."""

NOT_EVICTABLE_QUEUE = -2
"""Stands for the queue of a running job that cannot be paused and would lose too much by an eviction. No job of its own priority
comes before this queue, so only higher priorities preempt the job."""

_STATUSES = {
    JobState.TERMINATING: AllocationStatus.RELEASING,
    JobState.PAUSING: AllocationStatus.RELEASING,
    JobState.OFFLOADING: AllocationStatus.RELEASING,
    JobState.PAUSED: AllocationStatus.PAUSED,
    JobState.OFFLOADED: AllocationStatus.PAUSED,
}

NewlyPreemptible = tuple[SortKey | None, SortKey]
"""A range of places in the order: waiting jobs there may preempt a job that they could not preempt before. None: from the first
place on."""


class SchedulerState:
    """Everything known, brought up to date before each cycle by :meth:`refresh`."""

    def __init__(self, nodes: Sequence[Node], policies: Policies) -> None:
        self.policies = policies
        self.jobs: dict[str, Job] = {}
        self.worker_counts: dict[str, int] = {}
        """By elastic job: the number of workers that the elastic policy gives it."""

        self.elastic_gpus = 0
        """The GPUs that rigid jobs leave to elastic ones, as the elastic policy was told."""

        self.round = ModelRound()
        """Which jobs run on which GPU model, where the order policy says so."""

        self.contention = Contention()
        self._overcommitted_percent: Sequence[int] = ()
        """By pool: what its GPUs offer beyond their time."""

        self.ranking = Ranking(policies.order, self._claim if policies.order.bounds_waiting else None)
        self.queue = WaitingQueue()
        self.paused: set[str] = set()
        self.suspended: set[str] = set()
        """Jobs that hold GPUs and are suspended: they stop in the next cycle."""

        self.resized: set[str] = set()
        """Running jobs whose users ask for another number of workers."""

        self.suspended_waiting: set[str] = set()
        """Jobs that are not in the queue, because they are suspended."""

        self.releasing: set[str] = set()
        self.departures = 0
        """Counts the jobs that left the waiting queue or moved in it: they may have blocked others."""

        self.preemptible = Preemptible()
        self._newly_preemptible: list[NewlyPreemptible] = []

        self._avoid: dict[str, frozenset[str]] = {}
        self._started: dict[str, SortKey] = {}
        """Jobs that the last cycle starts, and their places then."""

        self.speeds = SpeedsByModel()
        """How fast jobs run that share GPUs, as far as it is known."""

        self.measured = MeasuredSpeeds()
        self._stale: set[str] = set()
        self._min_runtimes = MinRuntimes()
        self._evictable_until = Timers()
        """When running jobs will have too much unsaved work to be evicted."""

        self.truncated = False
        """Whether the last decision ended early, because no more jobs were to start by it."""

        self._failures: list[PolicyFailure] = []
        self._priorities: Counter[int] = Counter()
        """Of all jobs: the number of jobs by priority."""

        self._holders_known = False
        self._set_cluster(nodes)

    def note_failure(self, failure: PolicyFailure) -> None:
        """Note that a policy failed."""
        self._failures.append(failure)

    def take_failures(self) -> tuple[PolicyFailure, ...]:
        """Return the policies that failed since the last call."""
        failures, self._failures = tuple(self._failures), []
        return failures

    def set_nodes(self, nodes: Sequence[Node]) -> bool:
        """Replace the cluster's nodes; return whether any changed. If a node has other GPUs than before, everything is counted again."""
        wanted = tuple(sorted(nodes, key=lambda node: node.name))
        if wanted == self.allocations.nodes:
            return False
        if self.allocations.renew(wanted):
            self.cluster_capacity = ClusterCapacity(self.allocations)
            self._count_capacity()
            self._capacities.clear()
            self.departures += 1
        else:
            self._set_cluster(wanted)
        return True

    def observe(self, job: Job) -> None:
        """Add a job, or replace what is known of it."""
        self._count_priority(job.key, -1)
        self.jobs[job.key] = job
        self._count_priority(job.key, 1)
        self._count_demand(job)
        self.ranking.change(job.key)
        self._stale.add(job.key)

    def forget(self, key: str) -> None:
        """Remove a job."""
        self._count_priority(key, -1)
        del self.jobs[key]
        self.measured.forget(key)
        self._avoid.pop(key, None)
        self.avoided.pop(key, None)
        self.worker_counts.pop(key, None)
        self.ranking.forget(key)
        self.contention.remove(key)
        self._stale.add(key)

    def _count_priority(self, key: str, change: int) -> None:
        if key in self.jobs:
            priority = self.jobs[key].priority
            self._priorities[priority] += change
            if not self._priorities[priority]:
                del self._priorities[priority]

    def avoid(self, key: str, nodes: frozenset[str]) -> None:
        """Keep a job away from nodes from now on."""
        if self._avoid.get(key, frozenset()) != nodes:
            self._avoid[key] = nodes
            self._note_avoided(key)
            self._stale.add(key)
            if key in self.jobs:
                self._count_demand(self.jobs[key])

    @contextmanager
    def kept_off(self, key: str, nodes: frozenset[int]) -> Iterator[None]:
        """Let a job avoid further nodes for a while, given by their numbers."""
        if not nodes:
            yield
            return
        before = self.avoided.get(key)
        self.avoided[key] = nodes if before is None else before | nodes
        try:
            yield
        finally:
            if before is None:
                del self.avoided[key]
            else:
                self.avoided[key] = before

    def set_order(self, order: OrderPolicy) -> None:
        """Order jobs by another policy from now on."""
        self.policies = replace(self.policies, order=order)
        self.ranking.set_policy(order)

    def set_worker_counts(self, workers: Mapping[str, int], elastic_gpus: int) -> None:
        """Set the number of workers of each elastic job.

        Args:
            workers: by job.
            elastic_gpus: the GPUs that rigid jobs leave to elastic ones.
        """
        self.elastic_gpus = elastic_gpus
        for key in workers.keys() | self.worker_counts.keys():
            if workers.get(key) != self.worker_counts.get(key):
                self._stale.add(key)
        self.worker_counts = dict(workers)

    def set_round(self, round_: ModelRound) -> None:
        """Set which jobs run on which GPU model."""
        before, now = self.round.assigned, round_.assigned
        if before is not now:
            self._stale |= {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
        self.round = round_

    def mark_assumed(self, key: str, *, starts: bool = False) -> None:
        """Note that a cycle changed a job's allocation without an observation; :meth:`refresh` undoes it unless it is
        observed by then.

        Args:
            key: the job.
            starts: whether it starts by this cycle.
        """
        if starts:
            self._started[key] = self.ranking.sort_keys[key]
        self._stale.add(key)

    def refresh(self, now_seconds: float) -> None:
        """Bring ranks, allocations and the waiting queue up to date."""
        if not self._holders_known:  # else all GPUs would count as idle
            self._holders_known = True
            self._refresh_stale(now_seconds)
        if self.policies.order.bounds_waiting:
            # Idle is what the last decision left idle, so this comes before its assumptions are undone. A truncated one has left GPUs to the
            # next decision, which follows at once.
            if not self.truncated:
                idle = zip(self.capacity(IDLE).idle_percent(), self._overcommitted_percent, strict=True)
                self.contention.set_idle([max(0, percent - beyond) for percent, beyond in idle])
            changed = self.contention.refresh() & self.jobs.keys()
            self.ranking.reclaim(changed, self.jobs, now_seconds)
        self._refresh_stale(now_seconds)
        self.measured.learn(self.speeds, self.jobs, self.allocations)

    def _refresh_stale(self, now_seconds: float) -> None:
        """Bring up to date what has changed, or is due."""
        moved = self.ranking.refresh(self.jobs, len(self.allocations.gpus), now_seconds)
        stale = self._stale
        stale |= moved
        stale |= self._min_runtimes.ended(now_seconds)
        stale |= self._evictable_until.pop_due(now_seconds)
        if not stale:
            return
        self._stale = set()
        for key in sorted(stale):
            job = self.jobs.get(key)
            if job is None:
                self._remove(key)
            elif job.state is JobState.WAITING:
                self._enter_waiting(job)
            else:
                self._enter_holding(job, now_seconds)
        self._started.clear()

    def take_newly_preemptible(self) -> list[NewlyPreemptible]:
        """Return the ranges of waiting jobs that may preempt more jobs than at the last call."""
        newly_preemptible, self._newly_preemptible = self._newly_preemptible, []
        return newly_preemptible

    def refresh_drifting(self, keys: Iterable[str], now_seconds: float) -> None:
        """Update the ranks that drift at a known pace; :meth:`refresh` does not."""
        self.ranking.refresh_drifting(keys, self.jobs, len(self.allocations.gpus), now_seconds)

    def as_scheduled(self, key: str) -> Job:
        """Return a waiting job with the number of workers, and the GPU model, that it would start with."""
        job = self.jobs[key]
        workers = self.worker_counts.get(key, job.demand.workers)
        if job.demand.elastic and not workers:
            workers = job.demand.fewest_workers  # none for now: these are enough for a start
        elif not job.demand.fewest_workers <= workers <= job.demand.most_workers:
            workers = job.demand.workers  # counted for a range that has changed since
        model = self.round.assigned.get(key)
        if workers == job.demand.workers and model is None:
            return job
        models = job.demand.models if model is None else frozenset({model})
        return replace(job, demand=replace(job.demand, workers=workers, models=models))

    def gets_no_workers(self, key: str) -> bool:
        """Whether the elastic policy keeps an elastic job without workers from starting."""
        none = self.worker_counts.get(key) == 0 and self.jobs[key].demand.elastic
        return none and not self.runs_anyway(key)

    def runs_anyway(self, key: str) -> bool:
        """Whether an elastic job starts, and runs on, with its fewest workers though the elastic policy gives it none: it goes first, or there
        are jobs of lower priority. Whether these hold GPUs does not count: else they would get them back as soon as they are preempted.
        """
        return self.ranking.sort_keys[key][1] == FIRST or min(self._priorities) < self.jobs[key].priority

    def capacity(self, view: View) -> FreeCapacity:
        """Return a view of the free capacity."""
        tracked = self.allocations.views.track(view)
        found = self._capacities.get(view)
        if found is None or found.tracked is not tracked:
            found = self._capacities[view] = FreeCapacity(
                self.allocations, tracked, self.avoided, self.speeds
            )
        return found

    def level(self, key: str) -> Level:
        """Return the level of a job; it may preempt jobs of larger levels."""
        place = self.ranking.sort_keys[key]
        return place[0], place[1]

    def next_change_seconds(self, now_seconds: float) -> float:
        """Return when time alone may change the decision; infinite: never."""
        due = self.ranking.next_seconds(now_seconds)
        first = min(self.queue.heads(), default=None)
        if first is None and not self.paused:
            return due
        by_queue = self.policies.order.preempts_by_queue and first is not None and not self.paused
        protected = self._min_runtimes.next_seconds(first[0][:2] if by_queue and first is not None else None)
        interval = now_seconds + self.policies.order.interval_seconds
        return min(due, protected, interval)

    def _set_cluster(self, nodes: Sequence[Node]) -> None:
        self.allocations = Allocations(nodes)
        self._holders_known = False
        self.cluster_capacity = ClusterCapacity(self.allocations)
        self.avoided: dict[str, frozenset[int]] = {}
        self._capacities: dict[View, FreeCapacity] = {}
        self.node_numbers = {node.name: number for number, node in enumerate(self.allocations.nodes)}
        for key in self._avoid:
            self._note_avoided(key)
        self._count_capacity()
        for key, job in self.jobs.items():
            self.ranking.change(key)
            self._stale.add(key)
            if job.state is JobState.WAITING:
                self.queue.remove(key)
        self.departures += 1

    def quantum_seconds(self, job: Job) -> float:
        """Return the run time that a job must be owed to go first."""
        return quantum_seconds(
            self.policies.preemption.cost_seconds(job, PreemptionAction.EVICT, held_bytes=0)
        )

    def min_run_seconds(self, job: Job, now_seconds: float) -> float:
        """Return for how long a job may not be preempted by any job if it runs from now on."""
        started = replace(job, started_seconds=now_seconds)
        return self.policies.preemption.protected_until_seconds(started) - now_seconds

    def first_since_seconds(self, job: Job) -> float:
        """Return since when a waiting job goes first."""
        return first_since_seconds(job, self.contention.share(job.key), self.quantum_seconds(job))

    def _claim(self, job: Job, now_seconds: float) -> Claim:
        return claim(job, self.contention.share(job.key), self.quantum_seconds(job), now_seconds)

    def _count_demand(self, job: Job) -> None:
        """Count what a job needs, or holds, while it runs or may."""
        if not self.policies.order.bounds_waiting:
            return
        if job.suspended or job.state is JobState.TERMINATING or not (job.placement or job.competes):
            self.contention.remove(job.key)
            return
        choices = suitable(job.demand, self.allocations.usable_classes)
        never_starts = not job.placement and self.cluster_capacity.unschedulable_reason(
            job.demand, self.avoided.get(job.key, frozenset())
        )
        if never_starts or not choices:
            self.contention.remove(job.key)
            return
        classes = tuple(gpu_class for gpu_class, _ in choices)
        group = Group(job.priority, classes, self.avoided.get(job.key, frozenset()))
        least_percent = min(share_percent for _, share_percent in choices)
        self.contention.add(job.key, group, job.demand.gpus * least_percent)

    def _count_capacity(self) -> None:
        if not self.policies.order.bounds_waiting:
            return
        capacity, self._overcommitted_percent = self.allocations.usable_percent()
        self.contention.set_capacity(self.allocations.pools, capacity)
        for job in self.jobs.values():
            self._count_demand(job)

    def _note_avoided(self, key: str) -> None:
        numbers = {self.node_numbers[name] for name in self._avoid[key] if name in self.node_numbers}
        if numbers:
            self.avoided[key] = frozenset(numbers)
        else:
            self.avoided.pop(key, None)

    def _remove(self, key: str) -> None:
        self.allocations.remove(key)
        self._leave_line(key)
        self._forget_hold(key)

    def _enter_waiting(self, job: Job) -> None:
        self.allocations.remove(job.key)
        self._forget_hold(job.key)
        if job.suspended:
            self.suspended_waiting.add(job.key)
            self._leave_line(job.key)
            return
        place = self.ranking.sort_keys[job.key]
        avoided = self.avoided.get(job.key, frozenset())
        waited = job.key in self.queue
        scheduled = self.as_scheduled(job.key)
        namespace = job.namespace if self.policies.admission else ""
        if self.queue.add(scheduled, self._profile_key(scheduled), avoided, namespace, place) and waited:
            self.departures += 1

    def _profile_key(self, job: Job) -> Hashable:
        """Return what decides about a waiting job's placement of its profile: jobs that differ in nothing else fit alike."""
        memory_bytes = None
        if job.profile is not None and self.cluster_capacity.depends_on_memory(job.demand):
            memory_bytes = (job.profile.persistent_bytes, job.profile.ephemeral_bytes)
        return self.policies.placement.profile_key(job), memory_bytes

    def _enter_holding(self, job: Job, now_seconds: float) -> None:
        self._leave_line(job.key)
        self.suspended_waiting.discard(job.key)
        status = _STATUSES.get(job.state, AllocationStatus.ALLOCATED)
        place = self._preemption_place(job, now_seconds)
        preemptible = self._may_be_preempted(job, now_seconds)
        self.allocations.add(job, job.placement, status, place[:2] if preemptible else None)
        if preemptible:
            self._add_preemptible(place, now_seconds)
        else:
            self.preemptible.remove(job.key)
        for members, belongs in (
            (self.paused, status is AllocationStatus.PAUSED),
            (self.releasing, status is AllocationStatus.RELEASING),
            (self.suspended, job.suspended and status is not AllocationStatus.RELEASING),
            (self.resized, job.state is JobState.RUNNING and job.requested_workers is not None),
        ):
            (members.add if belongs else members.discard)(job.key)

    def _may_be_preempted(self, job: Job, now_seconds: float) -> bool:
        if not job.preemptible or job.suspended or job.state not in (JobState.RUNNING, *PAUSED):
            self._min_runtimes.release(job.key)
            return False
        until_seconds = self.policies.preemption.protected_until_seconds(job)
        if job.state is not JobState.RUNNING or until_seconds <= now_seconds:
            self._min_runtimes.release(job.key)
            return True
        self._min_runtimes.protect(job.key, self.level(job.key), until_seconds)
        return False

    def is_evictable(self, job: Job, now_seconds: float) -> bool:
        """Whether a job that holds GPUs may be preempted by its equals. If it would lose too much by an eviction, it must be able
        to pause, or to go from paused to offloaded."""
        pauses = self.allocations.supports_pausing and job.pausable and job.state is not JobState.OFFLOADED
        return pauses or now_seconds < evictable_until_seconds(job)

    def _preemption_place(self, job: Job, now_seconds: float) -> SortKey:
        """Return a job's place in the order as far as others may preempt it."""
        until_seconds = evictable_until_seconds(job)
        self._evictable_until.put(job.key, until_seconds if until_seconds > now_seconds else math.inf)
        place = self.ranking.sort_keys[job.key]
        if self.is_evictable(job, now_seconds):
            return place
        return (place[0], NOT_EVICTABLE_QUEUE, *place[2:])

    def _add_preemptible(self, place: SortKey, now_seconds: float) -> None:
        """Make a job preemptible for the jobs that come before it."""
        key = place[-1]
        pace = self.ranking.pace(key)
        before = self.preemptible.place(key, now_seconds) or self._started.get(key)
        self.preemptible.add(place, self.allocations.of_job[key].percent, pace, now_seconds)
        if before is None or before < place:
            self._newly_preemptible.append((before, place))

    def _forget_hold(self, key: str) -> None:
        self.preemptible.remove(key)
        self._min_runtimes.release(key)
        self._evictable_until.forget(key)
        for members in (
            self.paused,
            self.releasing,
            self.suspended,
            self.resized,
            self.suspended_waiting,
        ):
            members.discard(key)

    def _leave_line(self, key: str) -> None:
        if self.queue.remove(key):
            self.departures += 1
