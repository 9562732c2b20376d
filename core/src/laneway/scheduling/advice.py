"""What a waiting job's user may want to know beyond the reason: who is ahead, when it may start, what would let it start now.

It is asked for after a plan, of some jobs only and now and then: none of it decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median

from laneway.scheduling.alternatives import alternatives
from laneway.scheduling.books import Books
from laneway.scheduling.estimates import (
    SHORTEST_SECONDS,
    Claim,
    Holder,
    estimated_starts,
    expected_left_seconds,
)
from laneway.scheduling.ledger import Entry, Kind
from laneway.scheduling.plan_types import WaitingCode, WaitingReason
from laneway.scheduling.snapshot import Job, JobState, WorkerPlacement
from laneway.scheduling.suitability import GPUClass
from laneway.scheduling.views import NOW, Level

ESTIMATED = 128
"""So many jobs, the first in line, get an estimate: further back it would say nothing."""

_NAMED_AHEAD = 5
_DEPARTURE_SECONDS = 30.0
"""In which a job makes way, more or less: a grace period for its checkpoint."""

_NOTHING_KNOWN_SECONDS = 600.0
"""For how long a job is taken to run while nothing has run yet."""

_MADE_WAY_FOR = (WaitingCode.AWAITING_PREEMPTION, WaitingCode.AWAITING_DEPARTURE)


@dataclass(frozen=True, slots=True)
class Advice:
    """What is told of one waiting job."""

    ahead: tuple[str, ...] = ()
    """Waiting jobs that go before it, the next ones first."""

    start_seconds: float | None = None
    """When it may start: an estimate; None: none can be made."""

    basis: str = ""
    """What the estimate rests on, as a sentence."""


def advise(
    books: Books,
    waiting: Mapping[str, WaitingReason],
    keys: Collection[str],
    now_seconds: float,
    *,
    trust_durations: bool = True,
) -> dict[str, Advice]:
    """Return advice to some of the jobs that wait.

    Args:
        books: as the walk that found the reasons left them.
        waiting: all that wait, in order.
        keys: whom to advise.
        now_seconds: the moment.
        trust_durations: whether estimates rely on what is said of how long jobs run.
    """
    line = [key for key, reason in waiting.items() if reason.position and _is_in_line(books.jobs[key])]
    first = list(islice(line, ESTIMATED))
    holders = _Holders(books, now_seconds, trust_durations)
    falls = _falls(books, first, now_seconds)
    claims = [_claim(books, key, waiting[key], holders, falls) for key in first]
    starts = (
        estimated_starts(claims, holders.all, holders.free_percent(), now_seconds, _DEPARTURE_SECONDS)
        if keys
        else {}
    )
    position = {key: at for at, key in enumerate(line)}
    classes = {claim.key: claim.classes for claim in claims}
    found = {}
    for key in keys:
        at = position.get(key, 0)
        start_seconds = starts.get(key)
        found[key] = Advice(
            ahead=tuple(reversed(line[max(0, at - _NAMED_AHEAD) : at])),
            start_seconds=start_seconds,
            basis="" if start_seconds is None else holders.basis(classes[key]),
        )
    return found


class _Holders:
    """Who has GPUs, and for how long."""

    def __init__(self, books: Books, now_seconds: float, trust: bool) -> None:
        self._books, self._now_seconds, self._trust = books, now_seconds, trust
        self.all: list[Holder] = []
        self._said: dict[GPUClass, tuple[int, int]] = {}
        """By class: how many jobs hold some of it, and of how many it is said how long they run."""

        runs = []
        for entry in books.ledger.entries.values():
            if entry.kind in (Kind.PARKED, Kind.RESERVED) or not entry.shares:
                continue
            gpu_class = books.ledger.classes[entry.shares[0][0]]
            left_seconds, said = expected_left_seconds(entry.job, now_seconds, trust=trust)
            if entry.kind is Kind.DEPARTING:
                left_seconds, said = _DEPARTURE_SECONDS, True
            else:
                runs.append(entry.job.ran_seconds(now_seconds) + left_seconds)
            held, told = self._said.get(gpu_class, (0, 0))
            self._said[gpu_class] = (held + 1, told + said)
            self.all.append(self._holder(entry, gpu_class, left_seconds))
        self.typical_seconds = median(runs) if runs else _NOTHING_KNOWN_SECONDS

    def run_seconds(self, job: Job) -> float:
        """Return how long a waiting job is taken to run from its start on."""
        left_seconds, said = expected_left_seconds(job, self._now_seconds, trust=self._trust)
        if said or job.ran_seconds(self._now_seconds) > SHORTEST_SECONDS:
            return left_seconds
        return self.typical_seconds

    def free_percent(self) -> dict[GPUClass, int]:
        """Return what is free of each class now."""
        ledger = self._books.ledger
        index = ledger.index(ledger.look(NOW))
        return {each: index.of_class(each).free_sum for each in ledger.usable_classes}

    def basis(self, classes: Iterable[GPUClass]) -> str:
        """Say what an estimate for a job that can run on these classes rests on."""
        held, told = (sum(self._said.get(each, (0, 0))[at] for each in classes) for at in (0, 1))
        jobs = "1 job holds" if held == 1 else f"{held} jobs hold"
        if held == told:
            return f"{jobs} GPUs that it can use, and it is known how long they run."
        return (
            f"{jobs} GPUs that it can use; of {told} it is known how long they run, the others are taken to run for as long "
            "again as they have."
        )

    def _holder(self, entry: Entry, gpu_class: GPUClass, left_seconds: float) -> Holder:
        now_seconds = self._now_seconds
        ends_seconds = now_seconds + left_seconds
        books, key, job = self._books, entry.job.key, entry.job
        may_fall = (
            entry.kind is Kind.SETTLED
            and job.preemptible
            and not job.suspended
            and job.state is JobState.RUNNING
        )
        if not may_fall or not books.policies.order.preempts_by_queue:
            return Holder(key, gpu_class, entry.percent, ends_seconds)
        level = books.level(key)
        protected_seconds = books.policies.preemption.protected_until_seconds(job)
        until_seconds = books.standings.ranks[key].until_seconds
        falls_to, falls_seconds = level, protected_seconds
        if until_seconds < math.inf:
            falls_to, falls_seconds = (level[0], level[1] + 1), max(until_seconds, protected_seconds)
        falls_seconds = max(falls_seconds, now_seconds)
        return Holder(key, gpu_class, entry.percent, ends_seconds, falls_seconds, falls_to)


def _is_in_line(job: Job) -> bool:
    return job.state is JobState.WAITING and not job.suspended


def _falls(books: Books, keys: Sequence[str], now_seconds: float) -> dict[str, tuple[float, Level]]:
    """Return, by job, how long after a start now it may have to make way, and for those of smaller levels than which."""
    order, preemption = books.policies.order, books.policies.preemption
    if not order.preempts_by_queue or order.relative:
        return {}
    running = []
    for key in keys:
        job = books.waits_for(key)
        share_percent = min((share for _, share in books.room(NOW).choices(job)), default=100)
        worker = WorkerPlacement(0, "", ("",) * job.demand.gpus, share_percent)
        running.append(replace(job, state=JobState.RUNNING, placement=(worker,), started_seconds=now_seconds))
    found = {}
    for job, rank in zip(
        running, order.ranks(running, len(books.ledger.gpus), now_seconds).values(), strict=True
    ):
        protected_seconds = preemption.protected_until_seconds(job) - now_seconds
        if not job.preemptible:
            continue
        queue, after_seconds = rank.queue, protected_seconds
        if rank.until_seconds < math.inf:
            queue, after_seconds = queue + 1, max(protected_seconds, rank.until_seconds - now_seconds)
        found[job.key] = (after_seconds, (-job.priority, queue))
    return found


def _claim(
    books: Books,
    key: str,
    reason: WaitingReason,
    holders: _Holders,
    falls: Mapping[str, tuple[float, Level]],
) -> Claim:
    job = books.waits_for(key)
    choices = books.room(NOW).choices(job)
    share_percent = min((share for _, share in choices), default=0)
    level = books.level(key)
    falls_after_seconds, falls_to = falls.get(key, (math.inf, level))
    return Claim(
        key,
        level,
        frozenset(gpu_class for gpu_class, _ in choices),
        share_percent * job.demand.gpus,
        holders.run_seconds(job),
        reason.code in _MADE_WAY_FOR,
        falls_after_seconds,
        falls_to,
    )


def alternatives_for(books: Books, key: str) -> tuple[str, ...]:
    """Return the changes of a waiting job's spec with each of which it would start now."""
    job = books.waits_for(key)
    if not _is_in_line(job):
        return ()
    return tuple(each.text for each in alternatives(job, books.room(NOW), books.policies.placement))
