"""When waiting jobs may start: an estimate, from how long those take that run, and who goes before whom.

GPUs of a class are counted, not laid out; nobody new is expected to come, and who makes way is not expected back: so it is too early where
GPUs are fragmented or many jobs come that go first, and too late where jobs end before their time. How far off it is is measured:
``make bench-scheduling ONLY=estimates``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from laneway.scheduling.snapshot import Job
from laneway.scheduling.suitability import GPUClass
from laneway.scheduling.views import Level

SHORTEST_SECONDS = 60.0
"""A job of which nothing is known but that it runs is taken to run for so long more at least."""

_MOST_MOMENTS = 512
"""So many moments are played, the first ones: those who are first in line start in them."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds GPUs."""

    key: str
    gpu_class: GPUClass
    percent: int
    """Of all of its GPUs together."""

    ends_seconds: float
    """When it is expected to end."""

    falls_seconds: float = math.inf
    """From when on it makes way for those of smaller levels than ``falls_to``; infinite: never."""

    falls_to: Level = (0, 0)


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that waits."""

    key: str
    level: Level
    classes: frozenset[GPUClass]
    """On whose GPUs it can run."""

    percent: int
    """That it needs of these together."""

    run_seconds: float
    """How long it is expected to run from its start on."""

    is_made_way_for: bool = False
    """Others are making way for it already."""

    falls_after_seconds: float = math.inf
    """How long after its start it may have to make way for those of smaller levels than ``falls_to``; infinite: never."""

    falls_to: Level = (0, 0)


def expected_left_seconds(job: Job, now_seconds: float, *, trust: bool = True) -> tuple[float, bool]:
    """Return how much longer a job runs, and whether somebody says so.

    Of a job of which nobody says anything, as long again as it has run: what remains of a job grows with its age where run
    times have a heavy tail, as those of training jobs have (Tiresias, NSDI'19, section 2.1), and for the Pareto distribution
    with exponent 1 this is the median.

    Args:
        job: one that runs, or is to.
        now_seconds: the moment.
        trust: whether what is said counts.
    """
    ran_seconds = job.ran_seconds(now_seconds)
    if trust and job.expected_seconds is not None:
        # One that goes on beyond its time is about to end, more or less.
        return max(job.expected_seconds - ran_seconds, 0.05 * ran_seconds), True
    return max(ran_seconds, SHORTEST_SECONDS), False


def estimated_starts(
    line: Sequence[Claim],
    holders: Iterable[Holder],
    free_percent: Mapping[GPUClass, int],
    now_seconds: float,
    departure_seconds: float,
) -> dict[str, float]:
    """Return when jobs may start; those that do not within the horizon are left out.

    It plays on what the planner does: whenever something becomes free, who waits is asked in order, takes what is free if it is
    enough, else has others make way that have fallen behind, else lets the next one try.

    Args:
        line: who waits, in order.
        holders: who has GPUs.
        free_percent: what is free of each class now.
        now_seconds: the moment.
        departure_seconds: how long it takes a job to make way.
    """
    play = _Play(holders, free_percent, now_seconds, departure_seconds)
    starts = {claim.key: now_seconds + departure_seconds for claim in line if claim.is_made_way_for}
    for claim in line:
        if claim.is_made_way_for:
            play.start(claim, starts[claim.key])
    waiting = [claim for claim in line if not claim.is_made_way_for]
    while waiting and play.advance():
        left = []
        for claim in waiting:
            start_seconds = play.try_to_start(claim)
            if start_seconds is None:
                left.append(claim)
            else:
                starts[claim.key] = start_seconds
        waiting = left
    return starts


class _Play:
    """What is free, and who holds the rest, as time goes on."""

    def __init__(
        self,
        holders: Iterable[Holder],
        free_percent: Mapping[GPUClass, int],
        now_seconds: float,
        departure_seconds: float,
    ) -> None:
        self._free = dict(free_percent)
        self._departure_seconds = departure_seconds
        self._moments = 0
        self._now_seconds = now_seconds
        self._held: dict[str, Holder] = {}
        self._fallen: dict[str, Holder] = {}
        """Those that make way for others, by key."""

        self._events: list[tuple[float, int, str]] = [(now_seconds, -1, "")]
        for holder in holders:
            self._hold(holder)

    def advance(self) -> bool:
        """Go to the next moment at which something changes; False: nothing does, or it is too far away."""
        if not self._events or self._moments == _MOST_MOMENTS:
            return False
        self._moments += 1
        self._now_seconds = max(self._now_seconds, self._events[0][0])
        while self._events and self._events[0][0] <= self._now_seconds:
            _, falls, key = heapq.heappop(self._events)
            if falls == 1 and key in self._held:
                self._fallen[key] = self._held[key]
            elif falls == 0:
                self._let_go(key)
        return True

    def try_to_start(self, claim: Claim) -> float | None:
        """Let a job start if it can, and return when it does."""
        free_percent = sum(self._free.get(each, 0) for each in claim.classes)
        start_seconds = self._now_seconds
        if free_percent < claim.percent:
            victims = self._victims(claim, claim.percent - free_percent)
            if victims is None:
                return None
            for victim in victims:
                self._let_go(victim.key)
            start_seconds += self._departure_seconds
        self.start(claim, start_seconds)
        return start_seconds

    def start(self, claim: Claim, start_seconds: float) -> None:
        """Let a job have GPUs, of the fullest classes first; what is short is owed."""
        short_percent = claim.percent
        for gpu_class in sorted(claim.classes, key=lambda each: (self._free.get(each, 0), each)):
            taken_percent = max(0, min(short_percent, self._free.get(gpu_class, 0)))
            if gpu_class == max(claim.classes, key=lambda each: (self._free.get(each, 0), each)):
                taken_percent = short_percent
            if taken_percent:
                short_percent -= taken_percent
                self._free[gpu_class] = self._free.get(gpu_class, 0) - taken_percent
                self._hold(
                    Holder(
                        f"{claim.key} {gpu_class.model} {gpu_class.allocatable_bytes}",
                        gpu_class,
                        taken_percent,
                        start_seconds + claim.run_seconds,
                        start_seconds + claim.falls_after_seconds,
                        claim.falls_to,
                    )
                )

    def _victims(self, claim: Claim, short_percent: int) -> list[Holder] | None:
        """Return who makes way, those first that have fallen furthest."""
        found = []
        for holder in sorted(self._fallen.values(), key=lambda each: (each.falls_to, each.key), reverse=True):
            if short_percent <= 0:
                break
            if holder.falls_to > claim.level and holder.gpu_class in claim.classes:
                found.append(holder)
                short_percent -= holder.percent
        return found if short_percent <= 0 else None

    def _hold(self, holder: Holder) -> None:
        self._held[holder.key] = holder
        heapq.heappush(self._events, (holder.ends_seconds, 0, holder.key))
        if holder.falls_seconds < holder.ends_seconds:
            heapq.heappush(self._events, (holder.falls_seconds, 1, holder.key))

    def _let_go(self, key: str) -> None:
        holder = self._held.pop(key, None)
        self._fallen.pop(key, None)
        if holder is not None:
            self._free[holder.gpu_class] = self._free.get(holder.gpu_class, 0) + holder.percent
