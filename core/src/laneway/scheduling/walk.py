"""One decision: a walk over the waiting jobs, in order. Each takes what it needs of what those before it left:

1. a job that runs keeps its place, unless one before it has had it make way;
2. a paused job goes on where it is, if nobody has taken its turns;
3. a job that waits starts if its gang fits in what is free now;
4. else it keeps GPUs for itself that others are leaving, if its gang fits there;
5. else others that come later in the order make way, no further than needed, if its gang fits then;
6. else it waits with the reason, holds nothing, and smaller jobs may pass it, unless the order policy has it hold them up.

What is kept in 4 and 5 lives in this decision only: the next one finds the leaving jobs where they are and comes to the
same conclusion, or to a better one.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from laneway.scheduling import explanation
from laneway.scheduling.books import Books
from laneway.scheduling.candidates import Candidates
from laneway.scheduling.closures import Closure, Closures
from laneway.scheduling.depths import cheapest, cost_of
from laneway.scheduling.ledger import Kind
from laneway.scheduling.plan_types import Depth, Preemption, PreemptionReason, WaitingReason
from laneway.scheduling.snapshot import Job, JobState, WorkerPlacement
from laneway.scheduling.standings import SortKey
from laneway.scheduling.trial import Placement, Trial
from laneway.scheduling.views import LATER, NOW, View
from laneway.scheduling.waiting_line import Shape

_MOST_BENEFICIARIES = 32
"""For so many jobs others make way in one decision; for more in the next, which follows at once: a decision must not take so
long that what it was made from is no longer true."""


@dataclass(slots=True)
class Decision:
    """What has changed. The fields mean what they do in :class:`laneway.scheduling.Plan`."""

    starts: dict[str, tuple[WorkerPlacement, ...]] = field(default_factory=dict)
    preemptions: dict[str, Preemption] = field(default_factory=dict)
    resumes: list[str] = field(default_factory=list)
    rescales: dict[str, int] = field(default_factory=dict)
    promotions: list[str] = field(default_factory=list)
    waiting: dict[str, WaitingReason] = field(default_factory=dict)
    """Of some waiting jobs: why. Of the others, see the closure of their shape."""

    cut_short: bool = False
    """As many start as may at once: the next decision goes on where this one ended, and is due now."""


class Walk:
    """One walk over the waiting jobs."""

    def __init__(
        self, books: Books, closures: Closures, now_seconds: float, most_starts: float = math.inf
    ) -> None:
        self._books = books
        self._closures = closures
        self._most_starts = most_starts
        self._now_seconds = now_seconds
        self._policies = books.policies
        self._placement = books.policies.placement
        self._decision = Decision()
        self._makes_way = bool(books.leaving)
        self._beneficiaries = 0
        self._candidates = Candidates(books, self._decision.preemptions, now_seconds)
        self._full_for: set[Shape] = set()
        """Shapes for which there is nothing free now; there won't be in this walk, which only takes of it."""

    def run(self) -> Decision:
        """Decide."""
        for key in sorted(self._books.suspended):
            self._stop(key, PreemptionReason.SUSPENDED, "It is suspended: it stops at its next checkpoint.")
        self._rescale()
        self._closures.review(self._now_seconds, something_leaves=bool(self._decision.preemptions))
        closed_before = list(self._closures.of)
        queue: list[tuple[SortKey, int, Shape | None]] = [
            (place, 0, shape)
            for place, shape in self._books.line.heads()
            if self._closures.opens(shape, place)
        ]
        queue += [(self._books.standings.keys[key], 0, None) for key in self._books.parked]
        heapq.heapify(queue)
        while queue:
            if len(self._decision.starts) >= self._most_starts:
                self._cut_short(queue)
                break
            place, position, shape = heapq.heappop(queue)
            if shape is None:
                self._resume(place)
                continue
            behind_all = self._closures.barrier is not None and self._closures.barrier < place
            if not behind_all and self._settle(place, shape):
                group = self._books.line.groups[shape]
                if position + 1 < len(group):
                    heapq.heappush(queue, (group[position + 1], position + 1, shape))
                if (
                    self._beneficiaries and closed_before
                ):  # what they leave may do for others that were tried before
                    for head in self._closures.open_after(place, closed_before):
                        heapq.heappush(queue, head)
                    closed_before = []
        if self._decision.preemptions:
            self._closures.drop()
        else:
            self._closures.keep()
        return self._decision

    def _cut_short(self, queue: Iterable[tuple[SortKey, int, Shape | None]]) -> None:
        self._decision.cut_short = True
        for place, _, shape in queue:
            if shape is None and place[-1] not in self._decision.preemptions:
                self._decision.waiting[place[-1]] = explanation.not_reached()

    def _settle(self, place: SortKey, shape: Shape) -> bool:
        """Decide about a waiting job; return whether the next of its shape is to be tried."""
        job = self._books.waits_for(place[-1])
        unfit = self._books.supply.unfit(job.demand, shape.avoided)
        if unfit is not None:
            return self._close(shape, place, unfit)
        held_back = self._held_back(job)
        if held_back is not None:
            self._decision.waiting[job.key] = held_back
            return True
        classes = [gpu_class for gpu_class, _ in self._books.room(NOW).choices(job)]
        before = min((at for each in classes if (at := self._closures.held_up.get(each))), default=None)
        if before is not None and before < place:
            return self._close(shape, place, explanation.behind(before[-1]))
        if shape not in self._full_for:
            if self._start(job):
                return True
            self._full_for.add(shape)
        found = self._keep_for(job) or self._make_way_for(job, place)
        holds_up = self._closures.holds_up(place, self._now_seconds)
        if holds_up:
            self._closures.hold_up(classes, place)
        return found or self._close(shape, place, None, holds_up)

    def _close(
        self, shape: Shape, place: SortKey, reason: WaitingReason | None, holds_up: bool = False
    ) -> bool:
        self._closures.of[shape] = Closure(place, reason, holds_up)
        return False

    def _held_back(self, job: Job) -> WaitingReason | None:
        """Return why placement is not even tried."""
        if self._books.allotted.get(job.key) == 0:
            return explanation.not_allotted()
        for admission in self._policies.admission:
            refusal = admission.refusal(job, self._books.room(NOW), self._now_seconds)
            if refusal is not None:
                return refusal
        return None

    def _start(self, job: Job) -> bool:
        """Start a job on what is free now."""
        placement = self._placed(job, NOW)
        if placement is None:
            return False
        self._decision.starts[job.key] = placement
        self._hold(job, placement, Kind.SETTLED)
        self._books.assume_started(job.key)
        return True

    def _placed(self, job: Job, view: View) -> Placement | None:
        """Return where a job would be placed; None: nowhere."""
        room = self._books.room(view)
        return self._placement.place(job, room) if room.may_hold(job) else None

    def _keep_for(self, job: Job) -> bool:
        """Keep GPUs for a job that others are leaving."""
        if not self._makes_way:
            return False
        placement = self._placed(job, LATER)
        if placement is None:
            return False
        leaving = self._books.ledger.departing_from(placement)
        self._decision.waiting[job.key] = explanation.awaiting_departure(leaving)
        self._hold(job, placement, Kind.RESERVED)
        return True

    def _make_way_for(self, job: Job, place: SortKey) -> bool:
        """Have others make way for a job."""
        if self._beneficiaries == _MOST_BENEFICIARIES:
            return False
        trial = Trial(self._books.ledger, lambda: self._placed(job, LATER))
        victims: Sequence[Job] | None = None
        for candidates in self._candidates.of(job, place):
            victims = self._policies.preemption.victims(candidates, trial)
            if victims:
                break
            trial.conclude(())
        found = cheapest(trial, victims, self._books) if victims else None
        if not victims or found is None:
            trial.conclude(())
            return False
        depths, placement = found
        trial.conclude(victims, depths)
        preemptions = [self._preempt(victim, job, depths[victim.key]) for victim in victims]
        self._makes_way = True
        self._beneficiaries += 1
        self._decision.waiting[job.key] = explanation.awaiting_preemption(preemptions)
        self._hold(job, placement, Kind.RESERVED)
        return True

    def _resume(self, place: SortKey) -> None:
        """Let a parked job go on where it is, or say why it can't."""
        key = place[-1]
        if key in self._decision.preemptions:
            return
        if self._books.ledger.resumable(key):
            self._books.ledger.resume(key)
            self._books.assume(key)
            self._decision.resumes.append(key)
        else:
            self._decision.waiting[key] = explanation.parked(self._books.jobs[key].state)

    def _rescale(self) -> None:
        """Have malleable jobs start anew that are to have another number of workers."""
        for key, workers in sorted(self._books.allotted.items()):
            job = self._books.jobs[key]
            if job.state is JobState.RUNNING and len(job.placement) != workers and job.preemptible:
                self._stop(
                    key,
                    PreemptionReason.RESCALED,
                    f"It goes on with {workers} workers instead of {len(job.placement)}.",
                )
                self._decision.rescales[key] = workers

    def _stop(self, key: str, reason: PreemptionReason, message: str) -> None:
        if key not in self._decision.preemptions:
            self._decision.preemptions[key] = Preemption(key, reason, message, None)
            self._books.ledger.depart(key)
            self._books.assume(key)
            self._makes_way = True

    def _preempt(self, victim: Job, beneficiary: Job, depth: Depth) -> Preemption:
        ranks = self._books.standings.ranks
        if victim.priority < beneficiary.priority:
            reason = PreemptionReason.HIGHER_PRIORITY
            why = f"whose priority is {beneficiary.priority}; its own is {victim.priority}."
        elif ranks[beneficiary.key].queue != ranks[victim.key].queue:
            reason = PreemptionReason.HIGHER_QUEUE
            why = f"which is in queue {ranks[beneficiary.key].queue}; it is in queue {ranks[victim.key].queue} itself."
        else:
            reason = PreemptionReason.HIGHER_QUEUE
            why = "which goes before it in the order."
        message = f"It makes way for {beneficiary.key}, {why}"
        cost_seconds = cost_of(victim, depth, self._books)
        preemption = Preemption(victim.key, reason, message, beneficiary.key, depth, cost_seconds)
        self._decision.preemptions[victim.key] = preemption
        self._books.assume(victim.key)
        return preemption

    def _hold(self, job: Job, placement: Placement, kind: Kind) -> None:
        self._books.ledger.enter(job, placement, kind, None)
        self._books.assume(job.key)


def reason_of(
    key: str, books: Books, closures: Closures, decision: Decision, by_shape: dict[Shape, WaitingReason]
) -> WaitingReason:
    """Return why a job of the line waits, after a walk.

    Args:
        key: a job that waits and did not start.
        books: as the walk left them.
        closures: as the walk left them.
        decision: what the walk came to.
        by_shape: reasons worked out so far; added to.
    """
    said = decision.waiting.get(key)
    if said is not None:
        return said
    shape = books.line.shape_of[key]
    closure = closures.of.get(shape)
    if closure is None:  # it was not even tried: somebody holds all others up
        job = books.waits_for(key)
        classes = [gpu_class for gpu_class, _ in books.room(NOW).choices(job)]
        if decision.cut_short and not all(each in closures.held_up for each in classes):
            return explanation.not_reached()
        before = min((closures.held_up[each] for each in classes), default=closures.barrier)
        assert before is not None
        return books.supply.unfit(job.demand, shape.avoided) or explanation.behind(before[-1])
    if closure.reason is not None:
        return closure.reason
    if shape not in by_shape:
        by_shape[shape] = explanation.waiting_for_others(
            books.waits_for(key), books.room(NOW), books.supply, books.policies.placement
        )
    return by_shape[shape]
