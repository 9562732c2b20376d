"""When waiting jobs may start: an estimate, from how long those take that run, and who goes before whom.

GPUs of a class are counted, not laid out, and nobody new is expected to come: so it is too early where GPUs are fragmented or many
jobs come that go first, and too late where jobs end before their time. How far off it is is measured:
``make bench-scheduling ONLY=estimates``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from laneway.scheduling.snapshot import Job
from laneway.scheduling.suitability import GPUClass
from laneway.scheduling.views import Level

SHORTEST_SECONDS = 60.0
"""A job of which nothing is known but that it runs is taken to run for so long more at least."""

_MOST_RELEASES = 256
"""So many releases of GPUs are looked at, the first ones: those who are first in line start on them."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds GPUs."""

    gpu_class: GPUClass
    percent: int
    """Of all of its GPUs together."""

    ends_seconds: float
    """When it is expected to end."""

    level: Level
    falls_to: Level | None = None
    """The level that it goes over to by itself; None: it is not known to change."""

    falls_seconds: float = math.inf
    """When it does, and may be preempted: from then on it makes way for those of smaller levels than that."""

    def released_seconds(self, level: Level) -> float:
        """Return from when a waiting job of a level could have its GPUs."""
        if self.falls_to is not None and self.falls_to > level:
            return min(self.ends_seconds, self.falls_seconds)
        return self.ends_seconds


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
    holders: Sequence[Holder],
    free_percent: Mapping[GPUClass, int],
    now_seconds: float,
    departure_seconds: float,
) -> dict[str, float]:
    """Return when jobs may start; those that never do, as things are, are left out.

    Each takes, in order, the first time at which enough is free for as long as it runs, beside what those before it took: small
    jobs fill gaps, and delay nobody who goes before them.

    Args:
        line: who waits, in order.
        holders: who has GPUs.
        free_percent: what is free of each class now.
        now_seconds: the moment.
        departure_seconds: how long it takes a job to make way.
    """
    releases: dict[tuple[Level, frozenset[GPUClass]], list[tuple[float, int]]] = {}
    taken: list[tuple[Claim, float]] = []
    starts: dict[str, float] = {}
    for claim in line:
        key = (claim.level, claim.classes)
        if key not in releases:
            releases[key] = _releases(claim, holders)
        free = sum(free_percent.get(each, 0) for each in claim.classes)
        start_seconds = _first_gap(claim, free, releases[key], taken, now_seconds)
        if claim.is_made_way_for:
            start_seconds = min(start_seconds, now_seconds + departure_seconds)
        if start_seconds < math.inf:
            starts[claim.key] = start_seconds
            taken.append((claim, start_seconds))
    return starts


def _releases(claim: Claim, holders: Iterable[Holder]) -> list[tuple[float, int]]:
    found = [
        (seconds, holder.percent)
        for holder in holders
        if holder.gpu_class in claim.classes and (seconds := holder.released_seconds(claim.level)) < math.inf
    ]
    found.sort()
    return found[:_MOST_RELEASES]


def _first_gap(
    claim: Claim,
    free_percent: int,
    releases: Sequence[tuple[float, int]],
    taken: Iterable[tuple[Claim, float]],
    now_seconds: float,
) -> float:
    """Return the first time from which on enough is free for the claim, as long as it runs; infinite: never."""
    changes = [(max(now_seconds, seconds), percent) for seconds, percent in releases]
    for other, start_seconds in taken:
        if other.classes & claim.classes:
            changes.append((start_seconds, -other.percent))
            changes.append((start_seconds + other.run_seconds, other.percent))
    changes.sort()
    times, free = [now_seconds], [free_percent]
    for seconds, percent in changes:
        if seconds > times[-1]:
            times.append(seconds)
            free.append(free[-1])
        free[-1] += percent
    at = 0
    while at < len(times):
        end = bisect_left(times, times[at] + claim.run_seconds, at + 1)
        short = next((each for each in range(end - 1, at - 1, -1) if free[each] < claim.percent), None)
        if short is None:
            return times[at]
        at = short + 1
    return math.inf
