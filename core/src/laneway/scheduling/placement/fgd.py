"""Fragmentation gradient descent (Weng et al., "Beware of Fragmentation", ATC'23, section 4.3).

Each worker goes where the expected fragmentation of its node grows least: fragmentation as the tasks that typically come
would see it (see ``fragmentation``). Best fit only considers how full a GPU is. This policy also values a remainder of 53
percent if many tasks need 47, and nodes with eight whole GPUs if some tasks need eight.

Nodes with the same free percents are alike, so candidates are states, not nodes; a node and its memory are checked only when
its state is the best one left.

The paper's tasks are single pods. The workers of a gang are placed one after the other, each where it does the least harm; a
gang that suffers from being spread declares it (``placement: Consolidate``). The paper counts CPUs as well; here they are
divided after placement (see ``allocation``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heappop, heappush

from laneway.api.training_job import PlacementMode
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.gpus.node_states import State
from laneway.scheduling.model.snapshot import GPU, Job, WorkerPlacement
from laneway.scheduling.placement.fragmentation import Fragmentation, Step, Task, reduced
from laneway.scheduling.placement.gang_placing import Choice, place_gang, tightest
from laneway.scheduling.placement.policy import WithoutProfile


@dataclass(frozen=True, slots=True)
class FGD(WithoutProfile):
    """Least growth of fragmentation; on a tie, the fuller node."""

    task_percents: tuple[float, ...] = (16, 23, 32, 47, 57, 65, 81, 100, 200, 400, 800)
    """The kinds of tasks that typically come: percent of one GPU, or whole GPUs of one node as multiples of 100."""

    task_popularity: tuple[float, ...] = (15, 29, 55, 127, 21, 36, 153, 554, 2, 2, 6)
    """How often each kind comes, relative to the others. The default is, in thousandths, the demands of the tasks with GPUs
    in Alibaba's trace (``openb_pod_list_default`` of that paper), similar shares merged."""

    def __post_init__(self) -> None:
        if len(self.task_percents) != len(self.task_popularity) or sum(self.task_popularity) <= 0:
            raise ValueError(
                f"task_percents has {len(self.task_percents)} kinds of tasks and task_popularity "
                f"{len(self.task_popularity)}: write as many popularities, not all 0"
            )
        for percent, popularity in zip(self.task_percents, self.task_popularity, strict=True):
            if percent < 1 or percent != int(percent) or (percent > 100 and percent % 100) or popularity < 0:
                raise ValueError(
                    f"a task of {percent} percent with popularity {popularity}: write 1 to 100 percent or a multiple "
                    f"of 100, and a popularity of 0 or more"
                )

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go; None if the gang does not fit.

        A gang keeps to one class of GPUs where it can, because the slowest worker sets the pace of all.
        """
        demand, choices = job.demand, capacity.choices(job)
        if demand.workers > 1 and demand.mode is not PlacementMode.AUTO:
            return place_gang(job, capacity, tightest)
        measure = _measure(self.task_percents, self.task_popularity)
        if demand.workers == 1:
            found = _Descent(job, capacity, choices, measure).found()
            return None if found is None else found[1]
        alone = [_Descent(job, capacity, (choice,), measure).found() for choice in choices]
        best = min((found for found in alone if found is not None), key=lambda found: found[0], default=None)
        if best is None and len(choices) > 1:
            best = _Descent(job, capacity, choices, measure).found()
        return None if best is None else best[1]


@lru_cache(maxsize=16)
def _measure(percents: tuple[float, ...], popularity: tuple[float, ...]) -> Fragmentation:
    total = sum(popularity)
    return Fragmentation(
        [
            Task(min(int(percent), 100), max(1, int(percent) // 100), weight / total)
            for percent, weight in zip(percents, popularity, strict=True)
        ]
    )


@dataclass(slots=True)
class _Spot:
    """A node's GPUs of one class, as this gang leaves them."""

    choice: int
    state: State
    step: Step
    alike: Sequence[int] = ()
    """The nodes in this state from this one on, until it is checked."""

    place_in_alike: int = 0
    open_gpus: list[tuple[int, GPU]] | None = None
    """Free percent and GPU, rising: what this gang may take; None until it is checked."""


_Candidate = tuple[float, bool, int, int, int, _Spot]
"""The sort key: growth, whether the gang is not there yet, free percent, choice, node. The smallest is the best; keys never
tie."""


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
                if len(state) >= gpus and state[-gpus] >= share_percent:
                    step = self._measure.least(state, state, share_percent, gpus)
                    if step is not None:
                        spot = _Spot(choice, state, step, nodes)
                        candidates.append((step.growth_percent, True, sum(state), choice, nodes[0], spot))
        heapify(candidates)
        return candidates

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
            following = _Spot(spot.choice, spot.state, spot.step, spot.alike, after)
            heappush(self._candidates, (*candidate[:-2], spot.alike[after], following))
        if full:
            return
        gpus = self._capacity.gpus_on(node, self._job, *self._choices[spot.choice])
        spot.open_gpus = [(self._capacity.free_percent(gpu), gpu) for gpu in gpus]
        self._offer(spot, node, touched=False)

    def _offer(self, spot: _Spot, node: int, *, touched: bool) -> None:
        """Add a checked node to the candidates, if it has room for one more worker."""
        levels = tuple(level for level, _ in spot.open_gpus or ())
        _, share_percent = self._choices[spot.choice]
        step = self._measure.least(spot.state, levels, share_percent, self._job.demand.gpus_per_worker)
        if step is not None:
            spot.step = step
            entry = (step.growth_percent, not touched, sum(spot.state), spot.choice, node, spot)
            heappush(self._candidates, entry)

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
        spot.state = reduced(spot.state, spot.step.levels, self._choices[spot.choice][1])
        if len(self._taken) < self._job.demand.workers:
            self._offer(spot, node, touched=True)

    def _workers(self) -> tuple[WorkerPlacement, ...]:
        """Number the workers; ranks on one node are neighbours."""
        return tuple(
            WorkerPlacement(rank, self._capacity.node_name(node), uuids, self._choices[choice][1])
            for rank, (node, choice, uuids) in enumerate(sorted(self._taken))
        )
