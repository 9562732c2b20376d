"""Models the speed of jobs that share a GPU: which parts of their iterations overlap, and which queue.

An iteration visits four resources: it reads from storage, prepares on the CPU, computes on the GPU and exchanges over the
network. While one job is on one of them, others can be on the other three (Muri, SIGCOMM'22, section 2); jobs that meet on
one share it equally: the agent's fair turns serve the job with the least service next, and the kernel divides CPUs, disks and
links evenly. Jobs run at their own pace, not in lockstep as in Muri, where all jobs of a group take the group's iteration
time.

That is a closed network of processor-sharing queues with one customer per job, which has an exact solution (Baskett, Chandy,
Muntz and Palacios, JACM 1975), computed by mean value analysis (Reiser and Lavenberg, JACM 1980): a job that arrives at a
resource finds the average queue that the others alone would form. No resource is ever busy for more than all of the time,
even if the stages of one job overlap.

Beyond the queues, lanes that run at the same time slow each other down: see :class:`Interference`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

from laneway.scheduling.model.snapshot import Profile, StageSeconds

PARALLEL_PENALTY_RATIO = 0.13
"""How much a lane slows another that runs at the same time, through caches, memory bandwidth and launches.

Fitted to the throughputs of pairs of jobs that Gavel (OSDI'20) measured on V100s, with one number a job for the part of its iteration
that is on the GPU: 0.13 to 0.16 by set of measurements, without the recommendation models, which nearly stand still beside others. A
job's speed beside a partner that the fit has not seen is then off by 0.15 on average on a V100 and by 0.08 on a P100 or K80, the sum of
both by 0.19 and 0.04. These data alone would hardly tell it from 0; Muri's own V100s took 1.31, 1.48 and 1.35 times as long as perfect
interleaving with 2, 3 and 4 jobs, and this comes to 1.13, 1.26 and 1.39. The scheduler starts with more, and learns the real one
(:mod:`laneway.scheduling.model.shared_speeds`).
"""

SWITCH_SECONDS = 0.0003
"""The time between two turns of a lane."""

_EXACT_SHARERS = 6
"""Up to this many sharers, the network is solved exactly, with one step for each subset. For more, it is approximated
(Schweitzer 1979); iterations are then too long, by 5 % on average over random loads and by 20 % in one of a hundred."""

_ROUNDS = 200
_CLOSE_RATIO = 1e-9


class Load(NamedTuple):
    """The time that one job's iterations need of each resource, alone on its GPU."""

    stages: StageSeconds
    iteration_seconds: float
    """Above 0."""

    lane: int | None = None
    """Jobs of one lane take turns on the GPU; None: a lane of its own, as gangs always have, and others while memory
    allows."""


@dataclass(frozen=True, slots=True)
class Interference:
    """What sharing costs beyond waiting for one another."""

    parallel_penalty_ratio: float = PARALLEL_PENALTY_RATIO
    """How much longer an iteration takes for each other lane that runs at the same time."""

    switch_seconds: float = SWITCH_SECONDS
    """The time of a hand-off, once an iteration for each job of a shared lane: release, grant and the page between them."""

    def __post_init__(self) -> None:
        for name in ("parallel_penalty_ratio", "switch_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: write 0 or more")

    def speed_ratios(self, loads: Sequence[Load]) -> tuple[float, ...]:
        """Return the speed of each of the jobs that share a GPU; 1 is its speed alone. No resource is busy for more than all
        of the time; the order of the jobs does not matter.

        Args:
            loads: one for each job; for a gang, the load of one worker.
        """
        ordered = sorted(range(len(loads)), key=lambda index: _key(loads[index]))
        ratios = _ratios(tuple(loads[index] for index in ordered), self)
        found = [0.0] * len(loads)
        for index, ratio in zip(ordered, ratios, strict=True):
            found[index] = ratio
        return tuple(found)


def interleaved(loads: Sequence[Load]) -> tuple[float, ...]:
    """Return the speed of each of the jobs that share a GPU if their stages interleave perfectly: nobody waits for a resource that is
    not busy for more than all of the time (Muri, SIGCOMM'22, section 4.1)."""
    parts = [_visits(load).busy for load in loads]
    busy = [math.fsum(of_resource) for of_resource in zip(*parts, strict=True)]
    return tuple(
        1 / max([1.0, *(total for total, part in zip(busy, own, strict=True) if part)]) for own in parts
    )


def load_of(profile: Profile | None) -> Load:
    """Return a job's load by its profile; without one, the whole iteration is assumed to be on the GPU."""
    if profile is None or profile.stages is None or profile.iteration_seconds <= 0:
        return Load(StageSeconds(0.0, 0.0, 1.0, 0.0), 1.0)
    return Load(profile.stages, profile.iteration_seconds)


class _Visits(NamedTuple):
    """A job's iteration, its time alone being 1."""

    queued: tuple[float, ...]
    """Time at each resource; overlapping stages are shortened so that their sum does not exceed the iteration."""

    elsewhere: float
    """The rest of the iteration, which needs no shared resource."""

    busy: tuple[float, ...]
    """How long each resource is kept busy."""


def _key(load: Load) -> tuple[object, ...]:
    return (load.stages, load.iteration_seconds, -1 if load.lane is None else load.lane)


@lru_cache(maxsize=65536)
def _ratios(loads: tuple[Load, ...], costs: Interference) -> tuple[float, ...]:
    if len(loads) == 1:
        return (1.0,)
    visits = [_visits(load) for load in loads]
    queued = _exact(visits) if len(visits) <= _EXACT_SHARERS else _approximate(visits)
    ratios = [
        1 / (seconds * _slowdown(load, loads, costs) + _switching(load, loads, costs))
        for seconds, load in zip(queued, loads, strict=True)
    ]
    return tuple(_within_capacity(ratios, visits))


def _visits(load: Load) -> _Visits:
    busy = tuple(min(1.0, seconds / load.iteration_seconds) for seconds in load.stages)
    together = max(1.0, sum(busy))
    queued = tuple(part / together for part in busy)
    return _Visits(queued, max(0.0, 1.0 - sum(queued)), busy)


def _exact(visits: Sequence[_Visits]) -> list[float]:
    """Return the time of an iteration of each job, by mean value analysis over all subsets of them."""
    times: list[float] = []
    lengths: dict[int, dict[int, tuple[float, ...]]] = {0: {}}
    for members in range(1, 1 << len(visits)):
        lengths[members] = {}
        times = []
        for index, visit in enumerate(visits):
            if members >> index & 1:
                others = lengths[members ^ 1 << index].values()
                seconds, queue = _iteration(visit, others)
                times.append(seconds)
                lengths[members][index] = queue
    return times


def _approximate(visits: Sequence[_Visits]) -> list[float]:
    """Return the time of an iteration of each job; a job is assumed not to change the queues of the others."""
    queues = [visit.queued for visit in visits]
    times = [1.0] * len(visits)
    for _ in range(_ROUNDS):
        before = times
        found = [
            _iteration(visit, [*queues[:index], *queues[index + 1 :]]) for index, visit in enumerate(visits)
        ]
        times = [seconds for seconds, _ in found]
        queues = [queue for _, queue in found]
        if all(abs(now - then) <= _CLOSE_RATIO * then for now, then in zip(times, before, strict=True)):
            break
    return times


def _iteration(visit: _Visits, others: Collection[tuple[float, ...]]) -> tuple[float, tuple[float, ...]]:
    """Return the time of a job's iteration beside the queues of others, and the fraction that it spends at each resource."""
    at = [own * (1 + math.fsum(ahead)) for own, ahead in zip(visit.queued, _columns(others), strict=True)]
    seconds = visit.elsewhere + math.fsum(at)
    return seconds, tuple(part / seconds for part in at)


def _columns(queues: Collection[tuple[float, ...]]) -> Iterable[tuple[float, ...]]:
    return zip(*queues, strict=True) if queues else repeat((), len(StageSeconds._fields))


def _slowdown(load: Load, loads: Sequence[Load], costs: Interference) -> float:
    """Return the slowdown of an iteration by other lanes that run at the same time."""
    own = 1 if load.lane is None else 0
    alone = sum(other.lane is None for other in loads) - own
    lanes = {other.lane for other in loads if other.lane is not None and other.lane != load.lane}
    return 1 + costs.parallel_penalty_ratio * (alone + len(lanes))


def _switching(load: Load, loads: Sequence[Load], costs: Interference) -> float:
    """Return the time of a hand-off as a fraction of an iteration alone."""
    turns = load.lane is not None and sum(other.lane == load.lane for other in loads) > 1
    return costs.switch_seconds / load.iteration_seconds if turns else 0.0


def _within_capacity(ratios: Sequence[float], visits: Sequence[_Visits]) -> list[float]:
    """Return the ratios, reduced for jobs that would keep a resource busy for more than all of the time."""
    busy = [
        math.fsum(ratio * part for ratio, part in zip(ratios, parts, strict=True))
        for parts in zip(*(visit.busy for visit in visits), strict=True)
    ]
    return [
        ratio / max([1.0, *(total for total, part in zip(busy, visit.busy, strict=True) if part)])
        for ratio, visit in zip(ratios, visits, strict=True)
    ]
