"""The measured speeds of running jobs that share GPUs, and what is learnt from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from laneway.scheduling.gpus.allocations import Allocations
from laneway.scheduling.gpus.views import IDLE
from laneway.scheduling.model.shared_speeds import SAME_RATIO, SpeedsByModel
from laneway.scheduling.model.snapshot import Job, JobState

_LEAST_RATIO = 0.01
"""Slower jobs count as this fast: one that stood still for a while says little about others."""


_MOST_AVERAGED = 16
"""Later measurements of a job beside the same ones count as much as an average over this many."""


class SharedSpeed(NamedTuple):
    """A measured speed."""

    ratio: float
    """1 is the job's speed alone on its GPUs. Above 0."""

    sharers: frozenset[str]
    """The other jobs that ran on any of its GPUs all the time."""


class Group(NamedTuple):
    """The jobs that share a GPU."""

    model: str
    """Of the GPU."""

    jobs: list[Job]

    def place(self, key: str) -> int:
        """Return the place of a job in the group."""
        return next(at for at, job in enumerate(self.jobs) if job.key == key)

    def speed(self, key: str, speeds: SpeedsByModel) -> float:
        """Return the predicted speed of a job; 1 is its speed alone."""
        return speeds.on(self.model).predict(self.jobs)[self.place(key)]


class MeasuredSpeeds:
    """The last measured speed of each job, for as long as it shares its GPUs with the same jobs."""

    def __init__(self) -> None:
        self._of: dict[str, SharedSpeed] = {}
        self._averages: dict[str, tuple[float, int]] = {}
        """By job: the average of the speeds that were measured beside the same sharers, and their number."""

        self._new: set[str] = set()
        self.to_review: set[str] = set()
        """Jobs that may have to leave the GPUs that they share: they, or jobs beside them, were measured."""

        self.due_seconds = math.inf
        """When the first of those that gain too little may leave; infinite: there are none."""

    def report(self, key: str, speed: SharedSpeed, speeds: SpeedsByModel, allocations: Allocations) -> bool:
        """Note a measured speed; return whether it is not as predicted, or the job's first one beside these sharers."""
        before = self._of.get(key)
        if before == speed:
            return False
        same = before is not None and before.sharers == speed.sharers
        average, number = self._averages.get(key, (0.0, 0)) if same else (0.0, 0)
        number = min(number + 1, _MOST_AVERAGED)
        self._averages[key] = (average + (speed.ratio - average) / number, number)
        self._of[key] = speed
        self._new.add(key)
        groups = [group for group in groups_of(key, allocations) if len(group.jobs) > 1]
        predicted = min((group.speed(key, speeds) for group in groups), default=1.0)
        return not same or abs(predicted - speed.ratio) > SAME_RATIO

    def forget(self, key: str) -> None:
        """Note that a job is gone."""
        self._of.pop(key, None)
        self._averages.pop(key, None)
        self._new.discard(key)
        self.to_review.discard(key)

    def learn(self, speeds: SpeedsByModel, jobs: Mapping[str, Job], allocations: Allocations) -> None:
        """Learn from the new measurements that still hold: the sharers are where they were."""
        new, self._new = self._new, set()
        for key in sorted(new):
            job, groups = jobs.get(key), groups_of(key, allocations)
            if job is None or not self._holds(key, groups):
                self._of.pop(key, None)
                continue
            shared = [group for group in groups if len(group.jobs) > 1]
            if not shared:
                continue
            ratio = max(self._of[key].ratio, _LEAST_RATIO)
            slowest = min(shared, key=lambda group: group.speed(key, speeds))
            speeds.on(slowest.model).learn(slowest.jobs, slowest.place(key), ratio)
            self.to_review.add(key)
            self.to_review |= self._of[key].sharers

    def is_measured(self, key: str, groups: Sequence[Group]) -> bool:
        """Whether a job and all jobs beside it have been measured as they share GPUs now."""
        members = {job.key for group in groups for job in group.jobs} - {key}
        return (
            self._of.get(key, SharedSpeed(0.0, frozenset())).sharers == members and members <= self._of.keys()
        )

    def ratio_of(self, key: str, groups: Sequence[Group]) -> float | None:
        """Return the speed of a job beside those with which it shares GPUs now: the last one that was measured, or the average if that
        is more, so that a single wrong measurement changes little; None: not measured."""
        known = self._of.get(key)
        members = {job.key for group in groups for job in group.jobs} - {key}
        if known is None or known.sharers != members:
            return None
        return max(known.ratio, self._averages[key][0])

    def _holds(self, key: str, groups: Sequence[Group]) -> bool:
        members = {job.key: job for group in groups for job in group.jobs}
        return all(job.state is JobState.RUNNING for job in members.values()) and (
            self._of[key].sharers == members.keys() - {key}
        )


def groups_of(key: str, allocations: Allocations) -> list[Group]:
    """Return the different groups of jobs, a job among them, that share each of its GPUs; none where it holds none."""
    return list(_different(key, allocations))


def _different(key: str, allocations: Allocations) -> Iterator[Group]:
    found = set()
    for number in allocations.gpus_of(key):
        group = Group(allocations.gpus[number].model, allocations.sharers(number, IDLE))
        keys = tuple(job.key for job in group.jobs)
        if key in keys and (group.model, keys) not in found:
            found.add((group.model, keys))
            yield group
