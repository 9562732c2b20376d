"""Lanes: share GPUs if that increases throughput.

An empty GPU is taken while there is one. Else a gang joins others if the safety condition allows it, where all sharers
together do the most work, and none is expected to lose more than its bound: a job that reads data beside one that computes, as
in Muri (SIGCOMM'22). The speeds are those that such jobs have shown, else predicted from the stages in their profiles
(``laneway.scheduling.model.shared_speeds``). If even the best choice gains too little, it waits. If jobs that share turn out to gain
too little, or to lose too much, one leaves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from laneway.api.training_job import PlacementMode
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.shared_speeds import SharedSpeeds, SpeedsOf, kind_of
from laneway.scheduling.model.slowdown import keep_their_speed
from laneway.scheduling.model.snapshot import GPU, Job, Profile, WorkerPlacement
from laneway.scheduling.placement.gang_layout import Layout, in_turn, on_fewest_nodes, on_most_nodes
from laneway.scheduling.placement.gang_placing import Choice, on_the_closest

NodeRule = Callable[[int, Mapping[int, Sequence[int]]], Layout | None]
"""Lays a number of workers over nodes, which are given by the number of workers that each can take."""

_LOOKED_AT = 256
_LOOKED_AT_PER_GPU = 4
"""The number of worthwhile GPUs that are compared, and the number for each GPU that the gang needs. A large cluster has
more."""


_MOST_RESTARTS = 8
"""A job with so many restarts makes no further trials. Else one could be stopped once for each template of the cluster, and each of these
jobs be slowed for a minute."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Takes empty GPUs first, then those with the largest gain in the sum of speeds."""

    min_gain_ratio: float = 0.1
    """The least gain in work on each GPU for a job to join others; 1 is the work of a job alone. A smaller gain is not worth
    slowing the jobs there, which would otherwise end sooner."""

    keep_gain_ratio: float = 0.0
    """The least measured gain for a job to stay with others. It is less than ``min_gain_ratio``, because to move a job costs time."""

    def __post_init__(self) -> None:
        for name in ("min_gain_ratio", "keep_gain_ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}: write 0 to 1")
        if self.keep_gain_ratio > self.min_gain_ratio:
            raise ValueError(
                f"keep_gain_ratio is {self.keep_gain_ratio}: write at most min_gain_ratio, {self.min_gain_ratio}"
            )

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go; None if the gang does not fit, or gains too little everywhere."""
        choices = capacity.choices(job)
        attempts: list[Sequence[Choice]] = [(choice,) for choice in choices]
        if len(choices) > 1 and job.demand.workers > 1:
            attempts.append(choices)
        for attempt in attempts:
            search = _Search(job, capacity, attempt, self, _enough(job))
            placement = search.placement()
            if placement is None and not search.complete:
                placement = _Search(job, capacity, attempt, self, math.inf).placement()
            if placement is not None:
                return placement
        return None

    def profile_key(self, job: Job) -> Hashable:
        """Return what the job is alike with, the stages and the time of its iteration, and whether it can leave others again."""
        return kind_of(job), _may_try(job)

    def is_worth_it(self, change: Change) -> bool:
        """Whether a GPU does enough more work than before.

        A gang on the GPU counts only with its loss there, so the answer does not depend on other GPUs, and a job that fits
        beside some jobs also fits beside fewer. While many jobs wait, the gang's other GPUs will be shared as well.
        """
        return not change.lost or change.gained >= self.min_gain_ratio

    def may_join(self, job: Job, others: Sequence[Job], speeds: SharedSpeeds) -> bool:
        """Whether the job gains enough beside others, and all may keep the speed that their bounds allow.

        A job is profiled alone first: until its iterations were measured, it joins nobody and is joined by nobody. One that could not
        leave again, or not without losing all of its work, or has been restarted often, joins only where all are predicted to keep their
        speed; any other one may try.
        """
        if not others:
            return True
        if not all(_is_measured(each.profile) for each in (job, *others)) or not self.is_worth_it(
            change_by(job, others, speeds.predict)
        ):
            return False
        jobs = [*others, job]
        return keep_their_speed(jobs, speeds.hoped(jobs) if _may_try(job) else speeds.predict(jobs))

    def gain_ratio(self, job: Job, others: Sequence[Job], speeds_of: SpeedsOf) -> float:
        """Return what a job adds to the work of a GPU beside others; 1 is the work of a job alone."""
        return change_by(job, others, speeds_of).gained


def _is_measured(profile: Profile | None) -> bool:
    return profile is not None and profile.stages is not None and profile.iteration_seconds > 0


def _may_try(job: Job) -> bool:
    """Whether a job may join others although their speed together is not known."""
    return job.preemptible and not job.starts_over and job.restarts < _MOST_RESTARTS


def _enough(job: Job) -> float:
    """Return how many GPUs are considered, those with the fewest sharers first, if the gang fits on them."""
    if job.demand.mode is not PlacementMode.AUTO:
        return math.inf
    return max(_LOOKED_AT, _LOOKED_AT_PER_GPU * job.demand.gpus)


class Change(NamedTuple):
    """The effect of a job on a GPU."""

    own: float
    """The job's speed there."""

    lost: tuple[float, ...]
    """The slowdown of each of the others."""

    @property
    def gained(self) -> float:
        """The additional work of the GPU; 1 is the work of a job alone."""
        return self.own - math.fsum(self.lost)


def change_by(job: Job, others: Sequence[Job], speeds_of: SpeedsOf) -> Change:
    """Return the effect of a job on a GPU that others use."""
    before = speeds_of(others)
    *after, own = speeds_of([*others, job])
    return Change(own, tuple(was - now for was, now in zip(before, after, strict=True)))


class _Search:
    """Finds where one job gains most, on GPUs of some classes."""

    def __init__(
        self, job: Job, capacity: FreeCapacity, choices: Sequence[Choice], policy: Lanes, enough: float
    ) -> None:
        self._job = job
        self._capacity = capacity
        self._policy = policy
        self._sharers: dict[str, list[Job]] = {}
        self._changes: dict[tuple[str, ...], Change] = {}
        """By the GPU's model and its sharers."""
        self._joinable: dict[tuple[str, ...], bool] = {}
        self.complete = True
        """Whether all worthwhile GPUs have been found, not only the most that are compared."""
        groups: dict[tuple[str, int], list[GPU]] = {}
        for at, (gpu_class, share_percent) in enumerate(choices):
            found = 0
            for gpu in capacity.emptiest(job, gpu_class, share_percent):
                self._sharers[gpu.uuid] = capacity.sharers(gpu)
                if self._may_join(gpu, share_percent):
                    groups.setdefault((gpu.node, at), []).append(gpu)
                    found += 1
                    if found >= enough:
                        self.complete = False
                        break
        self._groups = [groups[key] for key in sorted(groups)]
        """GPUs of one node and class, by node."""
        self._shares = [choices[at][1] for _, at in sorted(groups)]
        self._workers_in = self._counted()
        """How many workers fit in each group."""

    def _may_join(self, gpu: GPU, share_percent: int) -> bool:
        """Whether the GPU has a share that nobody else holds, or the job gains enough by sharing and all keep their speed. Nobody
        measures what a foreign pod gains or loses, so it is not joined."""
        if self._capacity.is_unshared(gpu, share_percent):
            return True
        if gpu.foreign:
            return False
        others = self._sharers[gpu.uuid]
        key = (gpu.model, *(other.key for other in others))
        if key not in self._joinable:
            self._joinable[key] = self._policy.may_join(
                self._job, others, self._capacity.speeds.on(gpu.model)
            )
        return self._joinable[key]

    def placement(self) -> tuple[WorkerPlacement, ...] | None:
        """Return where the gang gains most; None if it does not fit."""
        layout = self._layout()
        if layout is None:
            return None
        each = self._job.demand.gpus_per_worker
        workers: list[WorkerPlacement] = []
        for group, count in layout:
            gpus = self._best(self._groups[group], count * each)
            for first in range(0, len(gpus), each):
                uuids = tuple(gpu.uuid for gpu in gpus[first : first + each])
                workers.append(WorkerPlacement(len(workers), gpus[first].node, uuids, self._shares[group]))
        return tuple(workers)

    def _counted(self) -> list[int]:
        counted = [len(gpus) // self._job.demand.gpus_per_worker for gpus in self._groups]
        limits = dict(self._capacity.host_limits(self._job))
        for group, gpus in enumerate(self._groups if limits else ()):
            node = self._capacity.node_number(gpus[0])
            if node in limits:
                counted[group] = min(counted[group], limits[node])
                limits[node] -= counted[group]  # groups of the same node share its limit
        return counted

    def _change(self, gpu: GPU) -> Change:
        """Return the effect of the job on a GPU."""
        others = self._sharers[gpu.uuid]
        key = (gpu.model, *(other.key for other in others))
        if key not in self._changes:
            self._changes[key] = change_by(self._job, others, self._capacity.speeds.on(gpu.model).predict)
        return self._changes[key]

    def _layout(self) -> Layout | None:
        """Lay the gang over the groups of GPUs: by its mode; else over empty GPUs, on as few nodes as possible; else on the
        nodes where it gains most."""
        workers = self._job.demand.workers
        if self._job.demand.mode is PlacementMode.SPREAD:
            return self._over_nodes(on_most_nodes)
        if self._job.demand.mode is PlacementMode.CONSOLIDATE:
            return self._over_nodes(self._closest)
        slots = self._slots(self._groups)
        empty = self._slots([[gpu for gpu in gpus if not self._sharers[gpu.uuid]] for gpus in self._groups])
        return on_fewest_nodes(workers, empty) or self._where_it_gains(slots)

    def _closest(self, _: int, slots: Mapping[int, Sequence[int]]) -> Layout | None:
        return on_the_closest(self._job, self._capacity, slots)

    def _over_nodes(self, rule: NodeRule) -> Layout | None:
        """Lay the gang over nodes, whatever classes their GPUs have; None if it does not fit, or the rule wants other nodes."""
        groups_of: dict[int, list[tuple[int, int]]] = {}
        for group, gpus in enumerate(self._groups):
            slots = self._workers_in[group]
            if slots:
                groups_of.setdefault(self._capacity.node_number(gpus[0]), []).append((group, slots))
        nodes_by_slots: dict[int, list[int]] = {}
        for node, groups in groups_of.items():
            nodes_by_slots.setdefault(sum(slots for _, slots in groups), []).append(node)
        layout = rule(self._job.demand.workers, nodes_by_slots)
        return layout and [part for node, workers in layout for part in in_turn(workers, groups_of[node])]

    def _slots(self, groups: Sequence[Sequence[GPU]]) -> dict[int, list[int]]:
        """Return, by number of workers that a group of GPUs, or a part of it, can take, the groups."""
        found: dict[int, list[int]] = {}
        for group, gpus in enumerate(groups):
            slots = min(len(gpus) // self._job.demand.gpus_per_worker, self._workers_in[group])
            found.setdefault(slots, []).append(group)
        return found

    def _where_it_gains(self, groups_by_slots: Mapping[int, Sequence[int]]) -> Layout | None:
        """Lay the gang on the one node where it gains most, else on those; None if it does not fit."""
        workers = self._job.demand.workers
        ranked = []
        for slots, groups in groups_by_slots.items():
            count = min(slots, workers) * self._job.demand.gpus_per_worker
            for group in groups if slots else ():
                best = sorted(self._scores(self._groups[group], count), reverse=True)[:count]
                ranked.append((slots < workers, -math.fsum(best) / count, group, slots))
        if sum(slots for *_, slots in ranked) < workers:
            return None
        return in_turn(workers, [(group, slots) for _, _, group, slots in sorted(ranked)])

    def _best(self, gpus: Sequence[GPU], count: int) -> list[GPU]:
        """Return the GPUs of a node where the job gains most; on a tie, GPUs with the same sharers."""
        scores = self._scores(gpus, count)
        keys = [[other.key for other in self._sharers[gpu.uuid]] for gpu in gpus]
        order = sorted(range(len(gpus)), key=lambda at: (-scores[at], keys[at], at))
        return [gpus[at] for at in order[:count]]

    def _scores(self, gpus: Sequence[GPU], count: int) -> list[float]:
        """Return the gain of each of a node's GPUs if the job takes this many of them. What slows a gang on one GPU slows it
        on all of them."""
        here = Counter(other.key for gpu in gpus for other in self._sharers[gpu.uuid])
        scores = []
        for gpu in gpus:
            change = self._change(gpu)
            lost = (
                lost * other.demand.gpus / min(count, here[other.key])
                for other, lost in zip(self._sharers[gpu.uuid], change.lost, strict=True)
            )
            scores.append(change.own - math.fsum(lost))
        return scores
