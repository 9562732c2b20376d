"""The one decision: from a snapshot to a plan.

The jobs are walked in order, and each takes what it needs of what those before it left:

1. a job that runs keeps its place, unless one before it has had it make way;
2. a job that waits starts if its gang fits in what is free now;
3. else it keeps GPUs for itself that others are leaving, if its gang fits there;
4. else others that come later in the order make way, if its gang fits then;
5. else it waits with the reason, holds nothing, and smaller jobs may pass it, unless the order policy has it hold them up.

What is kept in 3 and 4 lives in this plan only: the next one finds the leaving jobs in its snapshot and comes to the same
conclusion, or to a better one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile

from laneway.scheduling import explanation
from laneway.scheduling.ledger import Ledger
from laneway.scheduling.plan_types import Plan, Preemption, PreemptionReason, WaitingReason
from laneway.scheduling.registry import Policies
from laneway.scheduling.room import Room
from laneway.scheduling.snapshot import ClusterSnapshot, Job, JobState, WorkerPlacement
from laneway.scheduling.suitability import GPUClass
from laneway.scheduling.supply import Supply
from laneway.scheduling.validation import validate


def plan(snapshot: ClusterSnapshot, now_seconds: float, policies: Policies) -> Plan:
    """Decide who starts where, who makes way for whom, and why the others wait.

    Pure and deterministic; the order in which the snapshot lists things changes nothing.

    Raises:
        InvalidPlan: a policy broke an invariant (see :func:`laneway.scheduling.validate`).
    """
    decided = _Walk(snapshot, now_seconds, policies).plan()
    validate(snapshot, decided)
    return decided


def next_decision_seconds(snapshot: ClusterSnapshot, now_seconds: float, policies: Policies) -> float | None:
    """Return when time alone may change the plan, if no job comes, ends or changes its state before; None: never.

    That is when a job changes its queue, or when a running job may be preempted from then on.
    """
    gpus = sum(len(node.gpus) for node in snapshot.nodes)
    ranks = policies.order.ranks(snapshot.jobs, gpus, now_seconds)
    changes = [rank.until_seconds for rank in ranks.values()]
    if any(job.state is JobState.WAITING for job in snapshot.jobs):
        changes += [
            policies.preemption.protected_until_seconds(job)
            for job in snapshot.jobs
            if job.state is JobState.RUNNING
        ]
    return min((change for change in changes if now_seconds < change < math.inf), default=None)


class _Walk:
    """One walk over the jobs, in order."""

    def __init__(self, snapshot: ClusterSnapshot, now_seconds: float, policies: Policies) -> None:
        self._snapshot = snapshot
        self._now_seconds = now_seconds
        self._policies = policies
        self._ledger = Ledger(snapshot)
        self._now = Room(self._ledger, snapshot.avoid, now=True)
        self._later = Room(self._ledger, snapshot.avoid, now=False)
        self._supply = Supply(self._ledger)
        self._ranks = policies.order.ranks(snapshot.jobs, len(self._ledger.gpus), now_seconds)
        self._order = sorted(snapshot.jobs, key=self._place_in_order)
        self._preemptible = [job for job in reversed(self._order) if self._may_be_preempted(job)]
        self._leaving = any(job.state is JobState.LEAVING for job in snapshot.jobs)
        self._starts: dict[str, tuple[WorkerPlacement, ...]] = {}
        self._preemptions: dict[str, Preemption] = {}
        self._keeps: list[str] = []
        self._waiting: dict[str, WaitingReason | None] = {}
        self._shapes_without_room: set[object] = set()
        self._hopeless_shapes: set[object] = set()
        self._held_up_by: dict[GPUClass, str] = {}

    def plan(self) -> Plan:
        for job in self._order:
            if job.suspended and job.state in (JobState.STARTING, JobState.RUNNING):
                self._suspend(job)
        for job in self._order:
            if job.state is JobState.WAITING:
                self._decide(job)
            elif job.state is not JobState.LEAVING and job.key not in self._preemptions:
                self._keeps.append(job.key)
        return Plan(
            starts=self._starts,
            preemptions=self._preemptions,
            keeps=tuple(self._keeps),
            waiting=self._explained(),
            order=tuple(job.key for job in self._order),
            queues={job.key: self._ranks[job.key].queue for job in self._order},
            promotions=tuple(job.key for job in self._order if self._ranks[job.key].promoted),
        )

    def _decide(self, job: Job) -> None:
        held_back = self._held_back(job)
        if held_back is not None:
            self._waiting[job.key] = held_back
            return
        classes = [gpu_class for gpu_class, _ in self._now.choices(job)]
        before = next((self._held_up_by[each] for each in classes if each in self._held_up_by), None)
        if before is not None:
            self._waiting[job.key] = explanation.behind(before)
            return
        if self._start(job):
            return
        if not (self._keep_for(job) or self._make_way_for(job)):
            self._waiting[job.key] = None  # said at the end of the walk, when it is known what others took
            self._hopeless_shapes.add(self._shape(job))
        if self._policies.order.holds_up(job, self._ranks[job.key], self._now_seconds):
            self._held_up_by.update(dict.fromkeys(classes, job.key))

    def _held_back(self, job: Job) -> WaitingReason | None:
        """Return why placement is not even tried."""
        if job.suspended:
            return explanation.suspended()
        unfit = self._supply.unfit(job.demand, self._now.avoided(job))
        if unfit is not None:
            return unfit
        for admission in self._policies.admission:
            refusal = admission.refusal(job, self._now, self._now_seconds)
            if refusal is not None:
                return refusal
        return None

    def _start(self, job: Job) -> bool:
        """Start a job on what is free now. What is free only shrinks: a shape that failed once fails again."""
        shape = self._shape(job)
        if shape in self._shapes_without_room:
            return False
        placement = self._policies.placement.place(job, self._now)
        if placement is None:
            self._shapes_without_room.add(shape)
            return False
        self._starts[job.key] = placement
        self._ledger.settle(job, placement)
        return True

    def _keep_for(self, job: Job) -> bool:
        """Keep GPUs for a job that others are leaving."""
        if not self._leaving or self._shape(job) in self._hopeless_shapes:
            return False
        placement = self._policies.placement.place(job, self._later)
        if placement is None:
            return False
        self._waiting[job.key] = explanation.awaiting_departure(self._ledger.departing_from(placement))
        self._ledger.reserve(job, placement)
        return True

    def _make_way_for(self, job: Job) -> bool:
        """Preempt others for a job.

        A shape that failed fails for all that follow: these may preempt nobody whom that one could not.
        """
        if self._shape(job) in self._hopeless_shapes:
            return False
        candidates = self._candidates(job)
        trial = _Trial(self._ledger, lambda: self._policies.placement.place(job, self._later) is not None)
        victims = self._policies.preemption.victims(candidates, trial.fits_without)
        trial.settle(victims or ())
        placement = self._policies.placement.place(job, self._later) if victims else None
        if not victims or placement is None:
            trial.settle(())
            return False
        for victim in victims:
            self._preemptions[victim.key] = self._preemption(victim, job)
        self._leaving = True
        self._waiting[job.key] = explanation.awaiting_preemption([victim.key for victim in victims])
        self._ledger.reserve(job, placement)
        return True

    def _suspend(self, job: Job) -> None:
        self._preemptions[job.key] = Preemption(
            job.key, PreemptionReason.SUSPENDED, "It is suspended: it stops at its next checkpoint.", None
        )
        self._ledger.depart([job.key])
        self._leaving = True

    def _preemption(self, victim: Job, beneficiary: Job) -> Preemption:
        if victim.priority < beneficiary.priority:
            return Preemption(
                victim.key,
                PreemptionReason.HIGHER_PRIORITY,
                f"It makes way for {beneficiary.key}, whose priority is {beneficiary.priority}; "
                f"its own is {victim.priority}.",
                beneficiary.key,
            )
        return Preemption(
            victim.key,
            PreemptionReason.HIGHER_QUEUE,
            f"It makes way for {beneficiary.key}, which is in queue {self._ranks[beneficiary.key].queue}; "
            f"it is in queue {self._ranks[victim.key].queue} itself.",
            beneficiary.key,
        )

    def _candidates(self, job: Job) -> list[Job]:
        """Return who may be preempted for a job, first the one that goes last in the order."""
        rank = self._ranks[job.key]
        lower = takewhile(
            lambda running: (
                running.priority < job.priority
                or (
                    running.priority == job.priority
                    and self._policies.order.may_preempt(rank, self._ranks[running.key])
                )
            ),
            self._preemptible,
        )
        return [running for running in lower if running.key not in self._preemptions]

    def _may_be_preempted(self, job: Job) -> bool:
        return (
            job.state is JobState.RUNNING
            and job.preemptible
            and not job.suspended
            and self._policies.preemption.protected_until_seconds(job) <= self._now_seconds
        )

    def _place_in_order(self, job: Job) -> tuple[object, ...]:
        rank = self._ranks[job.key]
        return (-job.priority, rank.queue, rank.position, job.created_seconds, job.key)

    def _shape(self, job: Job) -> object:
        """Return what placement depends on: jobs of one shape fit or don't fit alike."""
        return (job.demand, job.profile, self._now.avoided(job))

    def _explained(self) -> dict[str, WaitingReason]:
        """Give every waiting job its reason and its position; those that cannot run hold no position."""
        by_shape: dict[object, WaitingReason] = {}
        explained: dict[str, WaitingReason] = {}
        position = 0
        for job in self._order:
            if job.key not in self._waiting:
                continue
            reason = self._waiting[job.key]
            if reason is None:
                shape = self._shape(job)
                if shape not in by_shape:
                    by_shape[shape] = explanation.waiting_for_others(
                        job, self._now, self._supply, self._policies.placement
                    )
                reason = by_shape[shape]
            if not (job.suspended or reason.never_fits):
                position += 1
                reason = replace(reason, position=position)
            explained[job.key] = reason
        return explained


class _Trial:
    """Tries who would have to go: between questions, only those depart or stay in whom the questions differ."""

    def __init__(self, ledger: Ledger, fits: Callable[[], bool]) -> None:
        self._ledger = ledger
        self._fits = fits
        self._gone: set[str] = set()

    def fits_without(self, victims: Sequence[Job]) -> bool:
        self.settle(victims)
        return self._fits()

    def settle(self, victims: Sequence[Job]) -> None:
        wanted = {victim.key for victim in victims}
        self._ledger.depart(sorted(wanted - self._gone))
        self._ledger.stay(sorted(self._gone - wanted))
        self._gone = wanted
