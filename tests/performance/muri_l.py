"""Muri-L (SIGCOMM'22) under any truth of how fast jobs run that share a GPU: the reference for our sharing under the same truth.

Written from what ``multi_resource_blossom_same_sim_jobs`` and ``_Blossom_Same`` in Muri's ``simulator/`` do with
``--schedule=multi-resource-blossom-same-gpu-unaware``. Whenever a job comes or ends, all jobs are grouped again:

1. The least attained GPU time goes first. Jobs are taken as if each GPU took four of the same width.
2. While they need too many GPUs, those of one width are matched in pairs, then the pairs: where they keep the four resources busiest.
3. A group that does less work than one job alone is dissolved. Groups start in the order of their first job, as long as GPUs are left.

It knows the truth. Matching is greedy, then partners are exchanged as long as that gains; theirs is exact. With the speeds of Muri's
simulator and its overhead at each event, it got an average JCT of 123,191 s on ``cluster_trace``; Muri's simulator gets 127,846 s.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations

from laneway.scheduling.model.interference import Load, load_of
from laneway.simulator import TraceJob
from laneway.simulator.models.lanes import GPUSpeeds

MOST_SHARERS = 4
_ROUNDS = 4
_RESOURCES = 4
_DONE_RATIO = 1e-9


@dataclass(slots=True, eq=False)
class Run:
    """A job's state. Times in seconds."""

    job: TraceJob
    load: Load
    left_seconds: float
    """Of its work, alone."""

    held_seconds: float = 0.0
    paused_seconds: float = 0.0
    """For which it does not work yet, because it moves."""

    started: bool = False

    @property
    def gpus(self) -> int:
        """Its width."""
        return self.job.demand.gpus

    @property
    def attained_gpu_seconds(self) -> float:
        """By which jobs are ordered."""
        return self.held_seconds * self.gpus


Group = list[Run]


class MuriL:
    """Groups jobs."""

    def __init__(self, speeds: GPUSpeeds, gpus: int) -> None:
        self._gpus = gpus
        self.speeds: Callable[[tuple[Load, ...]], tuple[float, ...]] = lru_cache(65536)(speeds.speed_ratios)
        """The speeds of jobs that share a GPU."""

    def groups(self, runs: Sequence[Run]) -> list[Group]:
        """Return the groups that run, of jobs in order of arrival."""
        taken = self._taken(sorted(runs, key=lambda run: run.attained_gpu_seconds))
        grouped = self._grouped([[run] for run in taken])
        parts = [
            part
            for group in grouped
            for part in ([group] if self._gains(group) else [[run] for run in group])
        ]
        parts.sort(key=lambda part: min(run.attained_gpu_seconds for run in part))
        return list(_that_fit(parts, self._gpus))

    def _taken(self, ordered: Sequence[Run]) -> list[Run]:
        """Return the jobs that fit with the most sharers on each GPU: a job that fits takes along the next ones of its width."""
        free, along, taken = self._gpus, Counter[int](), []
        for run in ordered:
            if not along[run.gpus]:
                if run.gpus > free:
                    continue
                free -= run.gpus
                along[run.gpus] = MOST_SHARERS
            along[run.gpus] -= 1
            taken.append(run)
        return taken

    def _grouped(self, groups: list[Group]) -> list[Group]:
        """Join groups of one width until they fit."""
        for _ in range(_ROUNDS):
            excess = sum(group[0].gpus for group in groups) - self._gpus
            for width in dict.fromkeys(group[0].gpus for group in groups):
                same = [group for group in groups if group[0].gpus == width]
                for one, other in matched(len(same), partial(self._busy, same)):
                    if excess > 0:
                        same[one].extend(same[other])
                        groups.remove(same[other])
                        excess -= width
        return groups

    def _busy(self, groups: Sequence[Group], one: int, other: int) -> float:
        """Return the part of the time for which two of the groups together would keep a resource busy, on average; 0: they are too many."""
        loads = _loads(groups[one] + groups[other])
        if len(loads) > MOST_SHARERS:
            return 0.0
        busy = (
            speed * sum(load.stages) / load.iteration_seconds
            for speed, load in zip(self.speeds(loads), loads, strict=True)
        )
        return math.fsum(busy) / _RESOURCES

    def _gains(self, group: Group) -> bool:
        return len(group) == 1 or math.fsum(self.speeds(_loads(group))) >= 1


def completion_seconds(
    trace: Sequence[TraceJob], speeds: GPUSpeeds, gpus: int, move_seconds: float = 0.0
) -> list[float]:
    """Return the completion time of each job, in the order in which they end.

    Args:
        trace: the jobs; all have profiles.
        speeds: how fast jobs run that share a GPU.
        gpus: of the cluster; any of them make a gang.
        move_seconds: how long a job does not work that starts again, or moves to the GPUs of another group.
    """
    policy = MuriL(speeds, gpus)
    coming = sorted(trace, key=lambda job: job.submit_seconds, reverse=True)
    runs: list[Run] = []
    groups: list[Group] = []
    found: list[float] = []
    now_seconds = 0.0
    while coming or runs:
        ends = (
            now_seconds + run.paused_seconds + run.left_seconds / speed
            for run, speed in _running(groups, policy)
        )
        next_seconds = min(ends, default=math.inf)
        if coming:
            next_seconds = min(next_seconds, coming[-1].submit_seconds)
        for run, speed in _running(groups, policy):
            _advance(run, speed, next_seconds - now_seconds)
        now_seconds = next_seconds
        ended = {run for run in runs if run.left_seconds <= _DONE_RATIO * run.job.duration_seconds}
        found.extend(now_seconds - run.job.submit_seconds for run in runs if run in ended)
        runs = [run for run in runs if run not in ended]
        while coming and coming[-1].submit_seconds <= now_seconds:
            job = coming.pop()
            runs.append(Run(job, load_of(job.profile), job.duration_seconds))
        before, groups = groups, policy.groups(runs)
        _move(before, groups, move_seconds)
    return found


def matched(count: int, weight: Callable[[int, int], float]) -> list[tuple[int, int]]:
    """Match things in pairs, so that the sum of the weights is large; pairs of weight 0 are none.

    Args:
        count: of the things.
        weight: of a pair; the first is the smaller number.
    """
    weights = {pair: weight(*pair) for pair in combinations(range(count), 2)}
    pairs: list[tuple[int, int]] = []
    free = set(range(count))
    for pair in sorted(weights, key=weights.__getitem__, reverse=True):
        if weights[pair] > 0 and free.issuperset(pair):
            free.difference_update(pair)
            pairs.append(pair)
    while _exchange(pairs, weights):
        pass
    return sorted(pairs)


def _exchange(pairs: list[tuple[int, int]], weights: dict[tuple[int, int], float]) -> bool:
    """Exchange partners between pairs where that gains; return whether it did."""
    changed = False
    for first, second in combinations(range(len(pairs)), 2):
        a, b, c, d = sorted(pairs[first] + pairs[second])
        ways = [((a, b), (c, d)), ((a, c), (b, d)), ((a, d), (b, c))]
        best = max(
            ways,
            key=lambda way: min(weights[way[0]], weights[way[1]]) > 0 and weights[way[0]] + weights[way[1]],
        )
        if weights[best[0]] + weights[best[1]] > weights[pairs[first]] + weights[pairs[second]] + 1e-9:
            pairs[first], pairs[second] = best
            changed = True
    return changed


def _that_fit(groups: Sequence[Group], gpus: int) -> Iterator[Group]:
    for group in groups:
        if group[0].gpus <= gpus:
            gpus -= group[0].gpus
            yield group


def _loads(group: Group) -> tuple[Load, ...]:
    return tuple(sorted(run.load for run in group))


def _running(groups: Sequence[Group], policy: MuriL) -> Iterator[tuple[Run, float]]:
    """Yield each job that runs, with its speed."""
    for group in groups:
        group.sort(key=lambda run: run.load)
        yield from zip(group, policy.speeds(_loads(group)), strict=True)


def _advance(run: Run, speed: float, seconds: float) -> None:
    paused_seconds = min(run.paused_seconds, seconds)
    run.held_seconds += seconds
    run.paused_seconds -= paused_seconds
    run.left_seconds -= (seconds - paused_seconds) * speed


def _move(before: Sequence[Group], groups: Sequence[Group], move_seconds: float) -> None:
    """Start the jobs of new groups. A group runs where most of its jobs are; the others of them move there."""
    where = {run: number for number, group in enumerate(before) for run in group}
    left = set(range(len(before)))
    for group in groups:
        there = Counter(number for run in group if (number := where.get(run)) in left)
        home = there.most_common(1)[0][0] if there else None
        left.discard(home)
        for run in group:
            if run.started and (home is None or where.get(run) != home):
                run.paused_seconds = move_seconds
            run.started = True
