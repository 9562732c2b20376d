"""Fragmentation gradient descent (Weng et al., "Beware of Fragmentation", ATC'23, section 4.3).

Each worker goes where the expected fragmentation of its node grows least: fragmentation as the tasks that typically come
would see it (see ``fragmentation``). Best fit only considers how full a GPU is. This policy also values a remainder of 53
percent if many tasks need 47, and nodes with eight whole GPUs if some tasks need eight.

Nodes with the same free percents are alike, so candidates are states, not nodes; a node and its memory are checked only when
its state is the best one left.

CPUs count as in the paper: a GPU is also useless to a task where the CPUs of its node do not suffice. So tasks with few CPUs for
each GPU go where CPUs are short. Nodes of one state are then alike if their CPUs suffice for the same kinds of tasks, before and
after. Where a node's CPUs are not known, they are enough for every task.

The paper's tasks are single pods. The workers of a gang are placed one after the other, each where it does the least harm; a
gang that suffers from being spread declares it (``placement: Consolidate``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heappop, heappush

from laneway.api.training_job import PlacementMode
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.gpus.node_states import State
from laneway.scheduling.model.host_resources import CPU
from laneway.scheduling.model.snapshot import GPU, Job, WorkerPlacement
from laneway.scheduling.placement.fragmentation import Fragmentation, Step, Task, reduced
from laneway.scheduling.placement.gang_placing import Choice, place_gang, tightest
from laneway.scheduling.placement.policy import WithoutProfile

_ALIBABA = {
    16: {4: 11, 6: 4},
    23: {4: 23, 6: 1, 8: 5},
    32: {4: 38, 6: 7, 8: 10},
    47: {4: 3, 6: 17, 8: 52, 12: 56},
    57: {4: 11, 6: 10},
    65: {4: 1, 8: 2, 12: 34},
    81: {4: 148, 6: 4},
    100: {4: 92, 6: 1, 8: 25, 12: 319, 16: 65, 20: 40, 32: 12},
    200: {20: 1},
    400: {64: 2},
    800: {96: 5, 128: 1},
}
"""The demands of the tasks with GPUs in Alibaba's trace (``openb_pod_list_default`` of the paper), similar ones merged: by percent of a
GPU and by CPUs, how many of a thousand tasks."""

_TASK_PERCENTS = tuple(percent for percent, kinds in _ALIBABA.items() for _ in kinds)
_TASK_POPULARITY = tuple(popularity for kinds in _ALIBABA.values() for popularity in kinds.values())
_TASK_CPUS = tuple(cpus for kinds in _ALIBABA.values() for cpus in kinds)


@dataclass(frozen=True, slots=True)
class FGD(WithoutProfile):
    """Least growth of fragmentation; on a tie, the fuller GPU, then the fuller node."""

    task_percents: tuple[float, ...] = _TASK_PERCENTS
    """The kinds of tasks that typically come: percent of one GPU, or whole GPUs of one node as multiples of 100."""

    task_popularity: tuple[float, ...] = _TASK_POPULARITY
    """How often each kind comes, relative to the others. The default is, in thousandths, the demands of the tasks with GPUs
    in Alibaba's trace, similar ones merged."""

    task_cpus: tuple[float, ...] = _TASK_CPUS
    """CPUs that each kind needs. Empty, or not written while ``task_percents`` is: CPUs are not counted."""

    step_percent: float = 4.0
    """Growths that round to the same multiple of this percentage of a GPU are a tie. The paper's program compares whole points of a
    score, which are about this far apart; smaller steps pack worse."""

    def __post_init__(self) -> None:
        cpus = self._cpus() or self.task_percents
        for name, values in (("task_popularity", self.task_popularity), ("task_cpus", cpus)):
            if len(values) != len(self.task_percents):
                raise ValueError(
                    f"task_percents has {len(self.task_percents)} kinds of tasks and {name} {len(values)}: write as many"
                )
        for percent, popularity in zip(self.task_percents, self.task_popularity, strict=True):
            if percent < 1 or percent != int(percent) or (percent > 100 and percent % 100) or popularity < 0:
                raise ValueError(
                    f"a task of {percent} percent with popularity {popularity}: write 1 to 100 percent or a multiple "
                    f"of 100, and a popularity of 0 or more"
                )
        if not any(self.task_popularity):
            raise ValueError("task_popularity is 0 for every kind of task: write a number above 0 for one")
        if any(cpus < 0 for cpus in self.task_cpus):
            raise ValueError(f"task_cpus has {min(self.task_cpus):g} CPUs for a task: write 0 or more")
        if self.step_percent <= 0:
            raise ValueError(f"step_percent is {self.step_percent:g}: write a number above 0")

    @property
    def measure(self) -> Fragmentation:
        """The expected fragmentation of nodes for these tasks."""
        return _measure(self.task_percents, self.task_popularity, self._cpus(), self.step_percent)

    def _cpus(self) -> tuple[float, ...]:
        """Return the CPUs of each kind of task; empty: not counted."""
        other_tasks = self.task_percents != _TASK_PERCENTS
        return () if other_tasks and self.task_cpus == _TASK_CPUS else self.task_cpus

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go; None if the gang does not fit.

        A gang keeps to one class of GPUs where it can, because the slowest worker sets the pace of all.
        """
        demand, choices = job.demand, capacity.choices(job)
        if demand.workers > 1 and demand.mode is not PlacementMode.AUTO:
            return place_gang(job, capacity, tightest)
        measure = self.measure
        if demand.workers == 1:
            found = _Descent(job, capacity, choices, measure).found()
            return None if found is None else found[1]
        alone = [_Descent(job, capacity, (choice,), measure).found() for choice in choices]
        best = min((found for found in alone if found is not None), key=lambda found: found[0], default=None)
        if best is None and len(choices) > 1:
            best = _Descent(job, capacity, choices, measure).found()
        return None if best is None else best[1]


@lru_cache(maxsize=16)
def _measure(
    percents: tuple[float, ...], popularity: tuple[float, ...], cpus: tuple[float, ...], step_percent: float
) -> Fragmentation:
    total = sum(popularity)
    return Fragmentation(
        [
            Task(min(int(percent), 100), max(1, int(percent) // 100), weight / total, round(1000 * each))
            for percent, weight, each in zip(percents, popularity, cpus or [0.0] * len(percents), strict=True)
        ],
        step_percent,
    )


_Tiers = tuple[int, int]
"""The CPU tier of a node before and after one more worker of this gang."""


@dataclass(slots=True)
class _Spot:
    """A node's GPUs of one class, as this gang leaves them."""

    choice: int
    state: State
    step: Step
    cpu_millis: float
    """CPUs that the node has left, in thousandths; infinite: not known."""

    alike: Sequence[int] = ()
    """The nodes in this state from this one on, until it is checked."""

    place_in_alike: int = 0
    open_gpus: list[tuple[int, GPU]] | None = None
    """Free percent and GPU, rising: what this gang may take; None until it is checked."""

    def candidate(self, node: int, *, touched: bool) -> _Candidate:
        """Return the spot with its sort key."""
        growth, levels = self.step
        return growth, not touched, sum(levels), sum(self.state), self.cpu_millis, self.choice, node, self


_Candidate = tuple[float, bool, int, int, float, int, int, _Spot]
"""The sort key: growth, whether the gang is not there yet, free percent of the GPUs, free percent of the node, its CPUs, choice, node.
The smallest is the best; keys never tie."""


class _Descent:
    """Places one gang by greedy descent: each worker goes where fragmentation grows least."""

    def __init__(
        self, job: Job, capacity: FreeCapacity, choices: Sequence[Choice], measure: Fragmentation
    ) -> None:
        self._job = job
        self._capacity = capacity
        self._choices = choices
        self._measure = measure
        self._avoided = capacity.avoided(job)
        self._workers_left = dict(capacity.host_limits(job))
        """By node: the workers that its CPUs, memory and other resources allow, where its GPUs would allow more."""
        self._hosts_left = capacity.hosts_left() if measure.counts_cpus else None
        self._cpu_millis = job.demand.requests.of_resource(CPU)
        self._candidates = self._first_candidates()
        self._growth_percent = 0.0
        self._taken: list[tuple[int, int, tuple[str, ...]]] = []

    def found(self) -> tuple[float, tuple[WorkerPlacement, ...]] | None:
        """Return by how much fragmentation grows, and the workers; None if the gang does not fit."""
        while len(self._taken) < self._job.demand.workers:
            if not self._candidates:
                return None
            self._step(heappop(self._candidates))
        return self._growth_percent, self._workers()

    def _first_candidates(self) -> list[_Candidate]:
        """Return the first node of each state that has room."""
        gpus = self._job.demand.gpus_per_worker
        candidates: list[_Candidate] = []
        for choice, (gpu_class, share_percent) in enumerate(self._choices):
            for state, nodes in self._capacity.states(gpu_class).nodes.items():
                if len(state) < gpus or state[-gpus] < share_percent:
                    continue
                for tiers, alike in self._by_tiers(nodes).items():
                    step = self._measure.least(state, state, share_percent, gpus, *tiers)
                    if step is not None:
                        spot = _Spot(choice, state, step, self._cpus_of(alike[0]), alike)
                        candidates.append(spot.candidate(alike[0], touched=False))
        heapify(candidates)
        return candidates

    def _by_tiers(self, nodes: Sequence[int]) -> Mapping[_Tiers, Sequence[int]]:
        """Return nodes of one state, those with the fewest CPUs first, without those whose CPUs do not suffice."""
        if self._hosts_left is None:
            return {self._tiers(math.inf): nodes}
        found: dict[_Tiers, list[int]] = {}
        for node in sorted(nodes, key=self._cpus_of):  # by number among equals
            cpu_millis = self._cpus_of(node)
            # As for kube-scheduler, who requests no CPU fits on a node whose CPUs are promised beyond what there is.
            if not self._cpu_millis or cpu_millis >= self._cpu_millis:
                found.setdefault(self._tiers(cpu_millis), []).append(node)
        return found

    def _cpus_of(self, node: int) -> float:
        """Return the CPUs that a node has left, in thousandths; infinite: not known."""
        left = None if self._hosts_left is None else self._hosts_left[node]
        return math.inf if left is None else left.get(CPU, 0)

    def _tiers(self, cpu_millis: float) -> _Tiers:
        return self._measure.cpu_tier(cpu_millis), self._measure.cpu_tier(cpu_millis - self._cpu_millis)

    def _step(self, candidate: _Candidate) -> None:
        """Put a worker on the best node; a node that is not checked yet is checked first, and the choice is repeated."""
        spot, node = candidate[-1], candidate[-2]
        full = node in self._avoided or self._workers_left.get(node) == 0
        if spot.open_gpus is not None:
            if not full:
                self._take(spot, node)
            return
        after = spot.place_in_alike + 1
        if after < len(spot.alike):
            following = spot.alike[after]
            next_spot = _Spot(spot.choice, spot.state, spot.step, self._cpus_of(following), spot.alike, after)
            heappush(self._candidates, next_spot.candidate(following, touched=False))
        if full:
            return
        gpus = self._capacity.gpus_on(node, self._job, *self._choices[spot.choice])
        spot.open_gpus = [(self._capacity.free_percent(gpu), gpu) for gpu in gpus]
        self._offer(spot, node, touched=False)

    def _offer(self, spot: _Spot, node: int, *, touched: bool) -> None:
        """Add a checked node to the candidates, if it has room for one more worker."""
        levels = tuple(level for level, _ in spot.open_gpus or ())
        _, share_percent = self._choices[spot.choice]
        tiers = self._tiers(spot.cpu_millis)
        step = self._measure.least(
            spot.state, levels, share_percent, self._job.demand.gpus_per_worker, *tiers
        )
        if step is not None:
            spot.step = step
            heappush(self._candidates, spot.candidate(node, touched=touched))

    def _take(self, spot: _Spot, node: int) -> None:
        levels, left, uuids = list(spot.step.levels), [], []
        for level, gpu in spot.open_gpus or ():
            if level in levels:
                levels.remove(level)
                uuids.append(gpu.uuid)
            else:
                left.append((level, gpu))
        self._taken.append((node, spot.choice, tuple(uuids)))
        if node in self._workers_left:
            self._workers_left[node] -= 1
        self._growth_percent += spot.step.growth_percent
        spot.open_gpus = left
        spot.cpu_millis -= self._cpu_millis
        spot.state = reduced(spot.state, spot.step.levels, self._choices[spot.choice][1])
        if len(self._taken) < self._job.demand.workers:
            self._offer(spot, node, touched=True)

    def _workers(self) -> tuple[WorkerPlacement, ...]:
        """Number the workers; ranks on one node are neighbours."""
        return tuple(
            WorkerPlacement(rank, self._capacity.node_name(node), uuids, self._choices[choice][1])
            for rank, (node, choice, uuids) in enumerate(sorted(self._taken))
        )
