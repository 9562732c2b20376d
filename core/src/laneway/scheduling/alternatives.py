"""What change of a job's spec would let it start now: each is tried in what is free, by the placement policy itself.

The smallest change of each kind is looked for: the most workers that fit, the largest share that fits. It costs a bounded number of
questions to the policy, whatever the cluster's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from laneway.api.enforcement import Enforcement
from laneway.api.training_job import PlacementMode
from laneway.scheduling.placement.policy import PlacementPolicy
from laneway.scheduling.room import Room
from laneway.scheduling.snapshot import Demand, Job

_MOST_QUESTIONS = 32
"""To the placement policy, for one job: a gang of 1,024 workers takes 10 to find the most that fit, a share 7."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One change with which the job would start now."""

    field: str
    """What is to be changed, as the spec calls it."""

    text: str
    """What to write, as a sentence's part: ``workers: 2 instead of 4``."""

    demand: Demand


def alternatives(job: Job, room: Room, placement: PlacementPolicy) -> tuple[Alternative, ...]:
    """Return the changes with each of which, all else as it is, the job would start on what is free now.

    Args:
        job: a job that waits.
        room: what is free.
        placement: the policy that would place it.
    """
    questions = _Questions(job, room, placement)
    found = (_placement, _sharing, _workers, _share, _gpus, _models, _enforcement)
    return tuple(each for changes in found for each in changes(job.demand, questions))


class _Questions:
    """Asks the placement policy, not too often."""

    def __init__(self, job: Job, room: Room, placement: PlacementPolicy) -> None:
        self._job, self._room, self._placement = job, room, placement
        self._left = _MOST_QUESTIONS

    def fits(self, demand: Demand) -> bool:
        """Whether the job would be placed with this demand; False also when enough has been asked."""
        if not self._left:
            return False
        self._left -= 1
        return self._placement.place(replace(self._job, demand=demand), self._room) is not None

    def largest(self, below: int, demand_of: Callable[[int], Demand]) -> int | None:
        """Return the largest number from 1 to less than ``below`` with which it would be placed; None: not even with 1."""
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


def _placement(demand: Demand, questions: _Questions) -> Iterator[Alternative]:
    if demand.workers == 1:
        return
    for mode in (PlacementMode.AUTO, PlacementMode.SPREAD, PlacementMode.CONSOLIDATE):
        changed = replace(demand, mode=mode)
        if mode is not demand.mode and questions.fits(changed):
            yield Alternative("placement", f"placement: {mode} instead of {demand.mode}", changed)
            return


def _sharing(demand: Demand, questions: _Questions) -> Iterator[Alternative]:
    shared = replace(demand, exclusive=False)
    if demand.exclusive and questions.fits(shared):
        yield Alternative("sharing", "sharing: Lanes instead of Exclusive", shared)


def _workers(demand: Demand, questions: _Questions) -> Iterator[Alternative]:
    def with_workers(workers: int) -> Demand:
        return replace(demand, workers=workers, min_workers=None, max_workers=None)

    workers = questions.largest(demand.workers, with_workers)
    if workers is not None:
        text = f"workers: {workers} instead of {demand.workers}"
        yield Alternative("workers", text, with_workers(workers))


def _share(demand: Demand, questions: _Questions) -> Iterator[Alternative]:
    if demand.exclusive or demand.gpus_per_worker > 1 or demand.memory_bytes is not None:
        return
    share = questions.largest(demand.share_percent, lambda percent: replace(demand, share_percent=percent))
    if share is not None:
        was = "perWorker: 1" if demand.share_percent == 100 else str(demand.share_percent)
        changed = replace(demand, share_percent=share)
        yield Alternative("gpus.share", f"gpus.share: {share} instead of {was}", changed)


def _gpus(demand: Demand, questions: _Questions) -> Iterator[Alternative]:
    gpus = questions.largest(demand.gpus_per_worker, lambda number: replace(demand, gpus_per_worker=number))
    if gpus is not None:
        text = f"gpus.perWorker: {gpus} instead of {demand.gpus_per_worker}"
        yield Alternative("gpus.perWorker", text, replace(demand, gpus_per_worker=gpus))


def _models(demand: Demand, questions: _Questions) -> Iterator[Alternative]:
    any_model = replace(demand, models=frozenset())
    if demand.models and questions.fits(any_model):
        yield Alternative("gpus.models", "gpus.models left out, so that any model will do", any_model)


def _enforcement(demand: Demand, questions: _Questions) -> Iterator[Alternative]:
    any_level = replace(demand, minimum_enforcement=Enforcement.NONE)
    if demand.minimum_enforcement is not Enforcement.NONE and questions.fits(any_level):
        text = f"minimumEnforcement left out instead of {demand.minimum_enforcement}"
        yield Alternative("minimumEnforcement", text, any_level)
