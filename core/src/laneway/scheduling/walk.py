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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

from laneway.scheduling import explanation
from laneway.scheduling.books import Books
from laneway.scheduling.ledger import LATER, NOW, Kind, Level, View
from laneway.scheduling.plan_types import Depth, Preemption, PreemptionReason, WaitingReason
from laneway.scheduling.snapshot import Job, JobState, WorkerPlacement
from laneway.scheduling.standings import SortKey
from laneway.scheduling.suitability import GPUClass
from laneway.scheduling.trial import Placement, Trial
from laneway.scheduling.waiting_line import Shape

_TRIED_SINGLY = 8
"""So many jobs more than the gang has workers, from the last in the order, are tried as victims wherever they run. After
that only those are that hold GPUs where the gang would be placed if all of the levels it takes were gone."""


_MOST_BENEFICIARIES = 32
"""For so many jobs others make way in one decision; for more in the next, which follows at once: a decision must not take so
long that what it was made from is no longer true."""


@dataclass(slots=True)
class Closure:
    """Why no job of a shape, from a place in the order on, can start."""

    place: SortKey
    reason: WaitingReason | None
    """None: it is worked out when somebody asks."""

    holds_up: bool = False


@dataclass(slots=True)
class Closures:
    """What did not fit, remembered for as long as nothing has become free."""

    of: dict[Shape, Closure] = field(default_factory=dict)
    held_up: dict[GPUClass, SortKey] = field(default_factory=dict)
    """By class of GPUs: the job that lets none pass which comes after it."""

    barrier: SortKey | None = None
    """The job after which nobody is tried: it holds up every class of GPUs."""

    stamp: tuple[int, int] | None = None
    """How often something had become free, and somebody had left the line, when they were written."""


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


class Walk:
    """One walk over the waiting jobs."""

    def __init__(self, books: Books, closures: Closures, now_seconds: float) -> None:
        self._books = books
        self._closures = closures
        self._now_seconds = now_seconds
        self._policies = books.policies
        self._placement = books.policies.placement
        self._decision = Decision()
        self._makes_way = bool(books.leaving)
        self._beneficiaries = 0

    def run(self) -> Decision:
        """Decide."""
        for key in sorted(self._books.suspended):
            self._stop(key, PreemptionReason.SUSPENDED, "It is suspended: it stops at its next checkpoint.")
        self._rescale()
        self._reopen()
        self._prune()
        queue: list[tuple[SortKey, int, Shape | None]] = [
            (place, 0, shape) for place, shape in self._books.line.heads() if self._open(shape, place)
        ]
        queue += [(self._books.standings.keys[key], 0, None) for key in self._books.parked]
        heapq.heapify(queue)
        while queue:
            place, position, shape = heapq.heappop(queue)
            if shape is None:
                self._resume(place)
                continue
            behind_all = self._closures.barrier is not None and self._closures.barrier < place
            if not behind_all and self._settle(place, shape):
                group = self._books.line.groups[shape]
                if position + 1 < len(group):
                    heapq.heappush(queue, (group[position + 1], position + 1, shape))
        self._closures.stamp = None if self._decision.preemptions else self._stamp()
        return self._decision

    def _reopen(self) -> None:
        """Forget what did not fit, where something may have become free since."""
        books, closures = self._books, self._closures
        if (
            closures.stamp != self._stamp()
            or self._decision.preemptions
            or books.policies.order.relative
            or books.standings.drifting
            or any(self._patience_ended(shape, closure) for shape, closure in closures.of.items())
            or self._comes_before_others()
        ):
            closures.of.clear()
            closures.held_up.clear()
            closures.barrier = None

    def _comes_before_others(self) -> bool:
        """Whether a job is to be tried that may hold up some that were tried before it came."""
        last = max((closure.place for closure in self._closures.of.values()), default=None)
        return last is not None and any(
            place < last and self._open(shape, place) and self._holds_up(place)
            for place, shape in self._books.line.heads()
        )

    def _prune(self) -> None:
        """Forget shapes of which none waits any more."""
        groups = self._books.line.groups
        if len(self._closures.of) > 2 * len(groups) + 16:
            self._closures.of = {shape: c for shape, c in self._closures.of.items() if shape in groups}

    def _stamp(self) -> tuple[int, int]:
        return (self._books.ledger.frees, self._books.departures if self._closures.held_up else -1)

    def _patience_ended(self, shape: Shape, closure: Closure) -> bool:
        group = self._books.line.groups.get(shape)
        if group is None or closure.reason is not None or closure.holds_up:
            return False
        return self._holds_up(group[0])

    def _holds_up(self, place: SortKey) -> bool:
        key = place[-1]
        return self._policies.order.holds_up(
            self._books.jobs[key], self._books.standings.ranks[key], self._now_seconds
        )

    def _open(self, shape: Shape, place: SortKey) -> bool:
        closure = self._closures.of.get(shape)
        return closure is None or place < closure.place

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
        if self._start(job):
            return True
        found = self._keep_for(job) or self._make_way_for(job, place)
        holds_up = self._holds_up(place)
        if holds_up:
            for each in classes:
                self._closures.held_up.setdefault(each, place)
            if len(self._closures.held_up) == len(self._books.ledger.usable_classes):
                self._closures.barrier = max(self._closures.held_up.values())
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
        placement = self._placement.place(job, self._books.room(NOW))
        if placement is None:
            return False
        self._decision.starts[job.key] = placement
        self._hold(job, placement, Kind.SETTLED)
        return True

    def _keep_for(self, job: Job) -> bool:
        """Keep GPUs for a job that others are leaving."""
        if not self._makes_way:
            return False
        placement = self._placement.place(job, self._books.room(LATER))
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
        trial = Trial(self._books.ledger, lambda: self._placement.place(job, self._books.room(LATER)))
        chosen = (
            self._policies.preemption.victims(candidates, trial)
            for candidates in self._candidates(job, place)
        )
        victims = next((victims for victims in chosen if victims), None)
        if victims is None:
            trial.settle(())
            return False
        found = self._shallowest(trial, victims)
        if found is None:
            trial.settle(())
            return False
        depth, placement = found
        for victim in victims:
            parked = victim.state is not JobState.RUNNING
            self._preempt(victim, job, Depth.EVICT if parked else depth)
        self._makes_way = True
        self._beneficiaries += 1
        self._decision.waiting[job.key] = explanation.awaiting_preemption([victim.key for victim in victims])
        self._hold(job, placement, Kind.RESERVED)
        return True

    def _shallowest(self, trial: Trial, victims: Sequence[Job]) -> tuple[Depth, Placement] | None:
        """Return how far the victims have to make way, and where the job goes then; None if it does not go anywhere after all
        (a placement policy of another package may prefer more company to less)."""
        for depth in Depth if self._books.ledger.parking else (Depth.EVICT,):
            placement = trial.placed_without(victims, depth)
            if placement is not None:
                return depth, placement
        return None

    def _candidates(self, job: Job, place: SortKey) -> Iterator[list[Job]]:
        """Yield who may be preempted for a job, first the one that goes last in the order: at first those that are
        preferred, then others, if these are not enough. Nobody, if it is no use."""
        if not self._policies.order.preempts_by_queue:
            yield self._candidates_by_rank(job)
            return
        reach = self._reach(job, (place[0], place[1]))
        if reach is None:
            return
        lowest, gpus = reach
        below = (
            key
            for key in takewhile(lambda key: self._books.level(key) > lowest, self._books.last_first())
            if key not in self._decision.preemptions
        )
        most = job.demand.workers + _TRIED_SINGLY
        nearest = [self._books.jobs[key] for key in islice(below, most)]
        yield nearest
        if len(nearest) == most:
            there = [
                key for key in self._books.ledger.below(lowest, gpus) if key not in self._decision.preemptions
            ]
            there.sort(key=lambda key: self._books.standings.keys[key], reverse=True)
            yield [self._books.jobs[key] for key in there]

    def _candidates_by_rank(self, job: Job) -> list[Job]:
        ranks = self._books.standings.ranks
        jobs = (self._books.jobs[key] for key in self._books.last_first())
        lower = takewhile(
            lambda running: (
                running.priority < job.priority
                or (
                    running.priority == job.priority
                    and self._policies.order.may_preempt(ranks[job.key], ranks[running.key])
                )
            ),
            jobs,
        )
        return [running for running in lower if running.key not in self._decision.preemptions]

    def _reach(self, job: Job, level: Level) -> tuple[Level, Placement] | None:
        """Return the largest level, from ``level`` up, so that the gang would fit if all of larger ones were gone, and
        where it would; None if it would not fit even if all were gone that may have to make way."""
        below = self._books.levels_below(level)
        if not below:
            return None
        floors = [level, *below[:-1]]
        found = None
        low, high = 0, len(floors)
        while low < high:  # the first floor is the most generous: what fits at one fits at those before it
            middle = 0 if found is None else (low + high) // 2
            placement = self._placement.place(job, self._books.room(View(below=floors[middle])))
            if placement is None:
                high = middle
            else:
                found, low = (floors[middle], placement), middle + 1
        return found

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

    def _preempt(self, victim: Job, beneficiary: Job, depth: Depth) -> None:
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
        self._decision.preemptions[victim.key] = Preemption(
            victim.key, reason, message, beneficiary.key, depth
        )
        self._books.assume(victim.key)

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
