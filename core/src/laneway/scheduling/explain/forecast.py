"""Forecasts when waiting jobs start, by simulating the order from the remaining run times.

GPUs of a group are counted, not placed; CPUs and memory are not counted. No new jobs arrive, and victims do not return. So
forecasts are too early if GPUs are fragmented, CPUs are short or many new jobs go first, and too late if jobs end early. The
error is measured: ``make bench-scheduling ONLY=estimates``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from laneway.scheduling.gpus.views import Level
from laneway.scheduling.model.gpu_class import GPUClass
from laneway.scheduling.model.snapshot import Job

SHORTEST_SECONDS = 60.0
"""The least remaining run time assumed for a running job of unknown run time."""

_MOST_MOMENTS = 512
"""The most moments simulated; the first waiting jobs start within them."""


class GPUGroup(NamedTuple):
    """GPUs of one class, on nodes that can hold workers of the same jobs."""

    gpu_class: GPUClass
    lacks: tuple[int, ...] = ()
    """Numbers of the requests of waiting jobs for which these nodes have too little, even if no job were there."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds GPUs."""

    key: str
    group: GPUGroup
    percent: int
    """Percent of all of its GPUs together."""

    ends_seconds: float
    """When it is expected to end."""

    falls_seconds: float = math.inf
    """When jobs of smaller levels than ``falls_to`` may preempt it; infinite: never."""

    falls_to: Level = (0, 0)


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that waits."""

    key: str
    level: Level
    groups: frozenset[GPUGroup]
    """The usable GPUs that it can run on; empty: it waits for nodes or for other pods, and gets no estimate."""

    percent: int
    """The percent of these together that it needs."""

    run_seconds: float
    """Its expected run time."""

    is_preemptor: bool = False
    """Others are being preempted for it."""

    falls_after_seconds: float = math.inf
    """How long after its start jobs of smaller levels than ``falls_to`` may preempt it; infinite: never."""

    falls_to: Level = (0, 0)

    run_seconds_on: Mapping[str, float] = field(default_factory=dict)
    """Its expected run time by GPU model, where it depends on it; the slowest GPUs of a gang count."""


def expected_left_seconds(
    job: Job, now_seconds: float, *, trust: bool = True, model: str = ""
) -> tuple[float, bool]:
    """Return the remaining run time of a job, and whether it is known.

    An unknown one is assumed to be as long as the job has run: the remaining time grows with a job's age where run times have
    a heavy tail, as those of training jobs have (Tiresias, NSDI'19, section 2.1). For the Pareto distribution with exponent 1
    this is the median.

    Args:
        job: a running or waiting job.
        now_seconds: the moment.
        trust: whether the expected run time counts.
        model: the model of its GPUs; empty: the one of its expected run time.
    """
    ran_seconds = job.ran_seconds(now_seconds)
    expected_seconds = job.expected_seconds_on(model) if model else job.expected_seconds
    if trust and expected_seconds is not None:
        # A job that exceeds its expected time is assumed to end soon.
        return max(expected_seconds - ran_seconds, 0.05 * ran_seconds), True
    return max(ran_seconds, SHORTEST_SECONDS), False


def estimated_starts(
    line: Sequence[Claim],
    holders: Iterable[Holder],
    free_percent: Mapping[GPUGroup, int],
    now_seconds: float,
    departure_seconds: float,
) -> dict[str, float]:
    """Return when jobs may start, without those beyond the horizon.

    Simulates the cycle: whenever GPUs become free, the waiting jobs are tried in order. Each takes what is free if that is
    enough, else preempts jobs that have become preemptible, else lets the next one try.

    Args:
        line: the waiting jobs, in order.
        holders: the jobs that hold GPUs.
        free_percent: what is free of each group now.
        now_seconds: the moment.
        departure_seconds: the time until a victim is gone.
    """
    simulation = _Simulation(holders, free_percent, now_seconds, departure_seconds)
    starts = {claim.key: now_seconds + departure_seconds for claim in line if claim.is_preemptor}
    for claim in line:
        if claim.is_preemptor:
            simulation.start(claim, starts[claim.key])
    waiting = [claim for claim in line if claim.groups and not claim.is_preemptor]
    while waiting and simulation.advance():
        left = []
        for claim in waiting:
            start_seconds = simulation.try_to_start(claim)
            if start_seconds is None:
                left.append(claim)
            else:
                starts[claim.key] = start_seconds
        waiting = left
    return starts


class _Simulation:
    """The simulated cluster: what is free, and which jobs hold the rest."""

    def __init__(
        self,
        holders: Iterable[Holder],
        free_percent: Mapping[GPUGroup, int],
        now_seconds: float,
        departure_seconds: float,
    ) -> None:
        self._free = dict(free_percent)
        self._departure_seconds = departure_seconds
        self._steps = 0
        self._now_seconds = now_seconds
        self._held: dict[str, Holder] = {}
        self._fallen: dict[str, Holder] = {}
        """The preemptible jobs, by key."""

        self._events: list[tuple[float, int, str]] = [(now_seconds, -1, "")]
        for holder in holders:
            self._hold(holder)

    def advance(self) -> bool:
        """Go to the next moment with a change; False: there is none, or it is beyond the horizon."""
        if not self._events or self._steps == _MOST_MOMENTS:
            return False
        self._steps += 1
        self._now_seconds = max(self._now_seconds, self._events[0][0])
        while self._events and self._events[0][0] <= self._now_seconds:
            _, falls, key = heapq.heappop(self._events)
            if falls == 1 and key in self._held:
                self._fallen[key] = self._held[key]
            elif falls == 0:
                self._let_go(key)
        return True

    def try_to_start(self, claim: Claim) -> float | None:
        """Start a job if it can start now; return when it starts."""
        free_percent = sum(self._free.get(each, 0) for each in claim.groups)
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
        """Give a job GPUs, from the fullest groups first; a shortage is taken from the emptiest group."""
        short_percent = claim.percent
        taken: list[tuple[GPUGroup, int]] = []
        fullest_first = sorted(claim.groups, key=lambda each: (self._free.get(each, 0), each))
        for group in fullest_first:
            taken_percent = max(0, min(short_percent, self._free.get(group, 0)))
            if group is fullest_first[-1]:
                taken_percent = short_percent
            if taken_percent:
                short_percent -= taken_percent
                self._free[group] = self._free.get(group, 0) - taken_percent
                taken.append((group, taken_percent))
        on = claim.run_seconds_on
        run_seconds = max(
            (on.get(group.gpu_class.model, claim.run_seconds) for group, _ in taken), default=0.0
        )
        for group, taken_percent in taken:
            self._hold(
                Holder(
                    f"{claim.key} {group}",
                    group,
                    taken_percent,
                    start_seconds + run_seconds,
                    start_seconds + claim.falls_after_seconds,
                    claim.falls_to,
                )
            )

    def _victims(self, claim: Claim, short_percent: int) -> list[Holder] | None:
        """Return enough victims, the largest levels first; None: there are too few."""
        found = []
        for holder in sorted(self._fallen.values(), key=lambda each: (each.falls_to, each.key), reverse=True):
            if short_percent <= 0:
                break
            if holder.falls_to > claim.level and holder.group in claim.groups:
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
            self._free[holder.group] = self._free.get(holder.group, 0) + holder.percent
