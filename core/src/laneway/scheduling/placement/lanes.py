"""Lanes: share GPUs where that gets more done.

An empty GPU is taken while there is one. Else a gang joins others where memory allows it by the safety condition, and where all who
share do the most work together, by what their profiles say of the stages of their iterations (``laneway.scheduling.interference``):
a job that reads data beside one that computes, as Muri (SIGCOMM'22) groups them. Where even the best choice gains too little, it
waits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from laneway.api.training_job import PlacementMode
from laneway.scheduling.interference import PARALLEL_PENALTY_RATIO, Interference, load_of
from laneway.scheduling.placement.gang_layout import Layout, in_turn, on_fewest_nodes, on_most_nodes
from laneway.scheduling.placement.gang_placing import Choice
from laneway.scheduling.room import Room
from laneway.scheduling.snapshot import GPU, Job, WorkerPlacement


@dataclass(frozen=True, slots=True)
class Lanes:
    """Empty GPUs first, then those where the sum of speeds gains most."""

    min_gain_ratio: float = 0.2
    """A job joins others only if each of its GPUs then does so much more work than before, alone being 1. What gains less than that
    slows down those who were there first for too little: without it they would be done, and gone, sooner."""

    min_speed_ratio: float = 0.0
    """It joins others only where it would itself be as fast as that, alone being 1; 0: however slow."""

    parallel_penalty_ratio: float = PARALLEL_PENALTY_RATIO
    """Of the model of interference."""

    def __post_init__(self) -> None:
        for name in ("min_gain_ratio", "min_speed_ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}: write 0 to 1")
        Interference(self.parallel_penalty_ratio)

    def place(self, job: Job, room: Room) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go; None if the gang does not fit, or gains too little wherever it does."""
        choices = room.choices(job)
        attempts: list[Sequence[Choice]] = [(choice,) for choice in choices]
        if len(choices) > 1 and job.demand.workers > 1:
            attempts.append(choices)
        for attempt in attempts:
            search = _Search(job, room, attempt, Interference(self.parallel_penalty_ratio))
            chosen = search.run()
            if chosen and self._is_worth_it([search.change(gpu) for gpu in chosen]):
                return search.workers(chosen)
        return None

    def _is_worth_it(self, changes: Sequence[_Change]) -> bool:
        """Whether the gang's GPUs do enough more work than before.

        Of a gang that is there, only what it loses on these GPUs is counted, so that the answer does not hang on who is where else:
        while many wait, its other GPUs will be shared as well.
        """
        own = min(change.own for change in changes)
        lost = sum(sum(change.lost) for change in changes) / len(changes)
        alone = not any(change.lost for change in changes)
        return alone or (own >= self.min_speed_ratio and own - lost >= self.min_gain_ratio)


class _Change(NamedTuple):
    """What a job changes about a GPU."""

    own: float
    """How fast it is there."""

    lost: tuple[float, ...]
    """By how much each of the others is slower."""


class _Search:
    """Where one job gains most, on GPUs of some classes."""

    def __init__(self, job: Job, room: Room, choices: Sequence[Choice], interference: Interference) -> None:
        self._job = job
        self._room = room
        self._interference = interference
        self._load = load_of(job.profile)
        self._share: dict[str, int] = {}
        self._nodes: dict[str, list[GPU]] = {}
        self._sharers: dict[str, list[Job]] = {}
        self._changes: dict[tuple[str, ...], _Change] = {}
        for gpu_class, share_percent in choices:
            for gpu in room.fullest(job, gpu_class, share_percent):
                self._share[gpu.uuid] = share_percent
                self._nodes.setdefault(gpu.node, []).append(gpu)
                self._sharers[gpu.uuid] = room.sharers(gpu)
        self._names = sorted(self._nodes)

    def run(self) -> list[GPU]:
        """Return the GPUs for the gang, in order of its workers; none if it does not fit."""
        layout = self._layout()
        chosen: list[GPU] = []
        for node, workers in layout or []:
            chosen += self._best(self._nodes[self._names[node]], workers * self._job.demand.gpus_per_worker)
        return chosen

    def workers(self, chosen: Sequence[GPU]) -> tuple[WorkerPlacement, ...]:
        """Return the workers on these GPUs."""
        each = self._job.demand.gpus_per_worker
        return tuple(
            WorkerPlacement(
                worker,
                chosen[worker * each].node,
                tuple(gpu.uuid for gpu in chosen[worker * each : (worker + 1) * each]),
                self._share[chosen[worker * each].uuid],
            )
            for worker in range(self._job.demand.workers)
        )

    def change(self, gpu: GPU) -> _Change:
        """Return what the job changes about a GPU."""
        others = self._sharers[gpu.uuid]
        keys = tuple(other.key for other in others)
        if keys not in self._changes:
            loads = [load_of(other.profile) for other in others]
            before = self._interference.speed_ratios(loads)
            *after, own = self._interference.speed_ratios([*loads, self._load])
            self._changes[keys] = _Change(
                own, tuple(was - now for was, now in zip(before, after, strict=True))
            )
        return self._changes[keys]

    def _layout(self) -> Layout | None:
        """Lay the gang over the nodes, each by its place in their names: as its mode says; else over empty GPUs, on as few nodes as
        can be; else on the nodes where it gains most."""
        workers = self._job.demand.workers
        slots = self._slots(self._nodes[name] for name in self._names)
        if self._job.demand.mode is PlacementMode.SPREAD:
            return on_most_nodes(workers, slots)
        if self._job.demand.mode is PlacementMode.CONSOLIDATE:
            layout = on_fewest_nodes(workers, slots)
            return layout if layout and len(layout) <= self._room.fewest_nodes(self._job) else None
        empty = self._slots(
            [gpu for gpu in self._nodes[name] if not self._sharers[gpu.uuid]] for name in self._names
        )
        return on_fewest_nodes(workers, empty) or self._where_it_gains(slots)

    def _slots(self, nodes: Iterable[Sequence[GPU]]) -> dict[int, list[int]]:
        """Return, by number of workers that a node can take on these of its GPUs, the nodes."""
        found: dict[int, list[int]] = {}
        for node, gpus in enumerate(nodes):
            found.setdefault(len(gpus) // self._job.demand.gpus_per_worker, []).append(node)
        return found

    def _where_it_gains(self, nodes_by_slots: Mapping[int, Sequence[int]]) -> Layout | None:
        """Lay the gang on the one node where it gains most, else on those; None if it does not fit."""
        workers = self._job.demand.workers
        ranked = []
        for slots, nodes in nodes_by_slots.items():
            count = min(slots, workers) * self._job.demand.gpus_per_worker
            for node in nodes if slots else ():
                best = sorted(self._scores(self._nodes[self._names[node]], count), reverse=True)[:count]
                ranked.append((slots < workers, -math.fsum(best) / count, node, slots))
        if sum(slots for *_, slots in ranked) < workers:
            return None
        return in_turn(workers, [(node, slots) for _, _, node, slots in sorted(ranked)])

    def _best(self, gpus: Sequence[GPU], count: int) -> list[GPU]:
        """Return the GPUs of a node where the job gains most, of equal ones those of the same sharers."""
        scores = self._scores(gpus, count)
        keys = [[other.key for other in self._sharers[gpu.uuid]] for gpu in gpus]
        order = sorted(range(len(gpus)), key=lambda at: (-scores[at], keys[at], at))
        return [gpus[at] for at in order[:count]]

    def _scores(self, gpus: Sequence[GPU], count: int) -> list[float]:
        """Return what each of a node's GPUs gains if the job takes so many of them. A gang is slowed down on all of its GPUs by what
        slows it down on one."""
        here = Counter(other.key for gpu in gpus for other in self._sharers[gpu.uuid])
        scores = []
        for gpu in gpus:
            change = self.change(gpu)
            lost = (
                lost * other.demand.gpus / min(count, here[other.key])
                for other, lost in zip(self._sharers[gpu.uuid], change.lost, strict=True)
            )
            scores.append(change.own - math.fsum(lost))
        return scores
