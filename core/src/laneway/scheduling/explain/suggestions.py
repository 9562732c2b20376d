"""Suggests changes of a job's spec that would let it start now; the placement policy tries each on the free capacity.

The smallest change of each kind is searched: the most workers that fit, the largest share that fits, the
strongest level of enforcement. The number of trials is bounded, for any size of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from laneway.api.enforcement import LEVELS, Enforcement
from laneway.api.training_job import PlacementMode
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.snapshot import Demand, Job
from laneway.scheduling.placement.policy import PlacementPolicy

_MOST_QUESTIONS = 32
"""Trials for one job: finding the most workers of a gang of 1,024 takes 10, finding a share 7."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One change with which the job would start now."""

    field: str
    """The field to change, as in the spec."""

    text: str
    """What to write, as part of a sentence: ``workers: 2 instead of 4``."""

    demand: Demand


def suggestions(
    job: Job, capacity: FreeCapacity, placement: PlacementPolicy, may_start: Callable[[Job], bool]
) -> tuple[Suggestion, ...]:
    """Return the changes of one field with which the job would start on what is free now.

    Args:
        job: a job that waits.
        capacity: what is free.
        placement: the policy that would place it.
        may_start: whether a changed job would be admitted, and may take the free GPUs that it could use.
    """
    questions = _Questions(job, capacity, placement, may_start)
    found = (_placement, _sharing, _workers, _share, _gpus, _models, _enforcement)
    return tuple(each for changes in found for each in changes(job.demand, questions))


class _Questions:
    """Tries demands with the placement policy, a bounded number of times."""

    def __init__(
        self,
        job: Job,
        capacity: FreeCapacity,
        placement: PlacementPolicy,
        may_start: Callable[[Job], bool],
    ) -> None:
        self._job, self._capacity, self._placement, self._may_start = job, capacity, placement, may_start
        self._left = _MOST_QUESTIONS

    def fits(self, demand: Demand) -> bool:
        """Whether the job would start with this demand; False also when all trials are used up."""
        if not self._left:
            return False
        self._left -= 1
        changed = replace(self._job, demand=demand)
        return self._may_start(changed) and self._placement.place(changed, self._capacity) is not None

    def largest(self, below: int, demand_of: Callable[[int], Demand]) -> int | None:
        """Return the largest number from 1 to less than ``below`` with which it would start; None: not even with 1."""
        if below <= 1 or not self.fits(demand_of(1)):
            return None
        fits, too_many = 1, below
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if self.fits(demand_of(middle)):
                fits = middle
            else:
                too_many = middle
        return fits


def _placement(demand: Demand, questions: _Questions) -> Iterator[Suggestion]:
    if demand.workers == 1:
        return
    for mode in (PlacementMode.AUTO, PlacementMode.SPREAD, PlacementMode.CONSOLIDATE):
        changed = replace(demand, mode=mode)
        if mode is not demand.mode and questions.fits(changed):
            yield Suggestion("placement", f"placement: {mode} instead of {demand.mode}", changed)
            return


def _sharing(demand: Demand, questions: _Questions) -> Iterator[Suggestion]:
    shared = replace(demand, exclusive=False)
    if demand.exclusive and questions.fits(shared):
        yield Suggestion("sharing", "sharing: Lanes instead of Exclusive", shared)


def _workers(demand: Demand, questions: _Questions) -> Iterator[Suggestion]:
    def with_workers(workers: int) -> Demand:
        return replace(demand, workers=workers, min_workers=None, max_workers=None)

    # An elastic policy chooses among the numbers of a range; any fixed number may be better.
    below = demand.most_workers + 1 if demand.elastic else demand.workers
    workers = questions.largest(below, with_workers)
    if workers is not None:
        instead = "without minWorkers and maxWorkers" if demand.elastic else f"instead of {demand.workers}"
        text = f"workers: {workers} {instead}"
        yield Suggestion("workers", text, with_workers(workers))


def _share(demand: Demand, questions: _Questions) -> Iterator[Suggestion]:
    if demand.exclusive or demand.gpus_per_worker > 1 or demand.memory_bytes is not None:
        return
    share = questions.largest(demand.share_percent, lambda percent: replace(demand, share_percent=percent))
    if share is not None:
        was = "a whole GPU" if demand.share_percent == 100 else str(demand.share_percent)
        changed = replace(demand, share_percent=share)
        yield Suggestion("gpus.sharePercent", f"gpus.sharePercent: {share} instead of {was}", changed)


def _gpus(demand: Demand, questions: _Questions) -> Iterator[Suggestion]:
    gpus = questions.largest(demand.gpus_per_worker, lambda number: replace(demand, gpus_per_worker=number))
    if gpus is not None:
        text = f"gpus.count: {gpus} instead of {demand.gpus_per_worker}"
        yield Suggestion("gpus.count", text, replace(demand, gpus_per_worker=gpus))


def _models(demand: Demand, questions: _Questions) -> Iterator[Suggestion]:
    any_model = replace(demand, models=frozenset())
    if demand.models and questions.fits(any_model):
        yield Suggestion("gpus.models", "gpus.models left out, so that any model will do", any_model)


def _enforcement(demand: Demand, questions: _Questions) -> Iterator[Suggestion]:
    weaker = LEVELS[: LEVELS.index(demand.minimum_enforcement)]
    for level in reversed(weaker):
        changed = replace(demand, minimum_enforcement=level)
        if questions.fits(changed):
            what = " left out" if level is Enforcement.NONE else f": {level}"
            text = f"minimumEnforcement{what} instead of {demand.minimum_enforcement}"
            yield Suggestion("minimumEnforcement", text, changed)
            return
