"""What Gavel's public scheduler does otherwise than our policies, to be switched on one by one.

With all of it, our simulator gives its figures, so these differences explain why ours differ. The classes are no policies of the
product: they keep state from one decision to the next. They follow ``scheduler.py``, ``policies/max_min_fairness.py`` and
``policies/fifo.py`` of https://github.com/stanford-futuredata/gavel.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from laneway.scheduling import Job, JobState, WaitingCode, WaitingReason, WorkerPlacement
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.order.gavel_las import GavelLAS
from laneway.scheduling.order.max_min_allocation import Claimant, normalized
from laneway.scheduling.order.policy import Rank, RoundJob
from laneway.scheduling.placement.count import Count

ROUND_SECONDS = 360.0
MODELS = ("v100", "p100", "k80")
_SLACK = 1e-3


def begins_round(now_seconds: float) -> bool:
    """Whether a round begins at this moment."""
    off = now_seconds % ROUND_SECONDS
    return min(off, ROUND_SECONDS - off) < _SLACK


@dataclass(frozen=True)
class OnlyAtRounds:
    """Jobs start at the beginning of a round only; GPUs that become idle within it stay idle."""

    def refusal(self, job: Job, capacity: FreeCapacity, now_seconds: float) -> WaitingReason | None:
        """Return a reason within a round."""
        if begins_round(now_seconds):
            return None
        return WaitingReason(
            WaitingCode.NOT_ADMITTED, "A round is under way.", "It starts with the next one."
        )


@dataclass(frozen=True)
class Shuffled(GavelLAS):
    """Each round fills the models in a random order."""

    shuffler: random.Random = field(default_factory=lambda: random.Random(5))
    """Its simulator's, for the seed 0."""

    def model_order(self, jobs: Sequence[RoundJob], gpus: Mapping[str, float]) -> Sequence[str]:
        """Return them as its simulator draws them."""
        order = list(MODELS)
        self.shuffler.shuffle(order)
        return order


@dataclass(frozen=True)
class Interior(GavelLAS):
    """Of all divisions with the largest smallest throughput, the one where an interior-point solver ends."""

    def targets(
        self, jobs: Sequence[RoundJob], gpus: Mapping[str, float]
    ) -> Mapping[str, Mapping[str, float]]:
        """Return the end of the central path."""
        models = sorted(gpus)
        claimants = [self._claimant(each, models) for each in jobs]
        parts = central_allocation(claimants, [gpus[model] for model in models])
        return {
            each.job.key: dict(zip(models, part, strict=True)) for each, part in zip(jobs, parts, strict=True)
        }


@dataclass(frozen=True)
class ShuffledInterior(Interior, Shuffled):
    """Both."""


def central_allocation(claimants: Sequence[Claimant], gpus: Sequence[float]) -> list[list[float]]:
    """Return the part of the time of each job on each model, near the end of the program's central path.

    Newton's method on the logarithmic barrier of the program in Gavel's paper (section 4.1), with a variable for each job and model.
    """
    jobs, models = len(claimants), len(gpus)
    size = jobs * models + 1
    rows, limits = [], []
    for number, each in enumerate(claimants):
        time, gain = np.zeros((jobs, models)), np.zeros((jobs, models))
        time[number] = 1
        gain[number] = [-each.gpus * speed for speed in normalized(each, gpus)]
        rows += [[*time.ravel(), 0.0], [*gain.ravel(), 1.0]]
        limits += [1.0, 0.0]
    for number, offered in enumerate(gpus):
        used = np.zeros((jobs, models))
        used[:, number] = [each.gpus for each in claimants]
        rows.append([*used.ravel(), 0.0])
        limits.append(offered)
    matrix = np.vstack([np.array(rows), np.hstack([-np.eye(size - 1), np.zeros((size - 1, 1))])])
    limit = np.array([*limits, *[0.0] * (size - 1)])
    width = sum(each.gpus for each in claimants)
    point = np.array([*[min(1.0, *(offered / width for offered in gpus)) / (models + 1)] * (size - 1), -1.0])
    price = 1.0
    while price < 1e7:
        price *= 4
        point = _centred(matrix, limit, point, price)
    return [list(part) for part in point[:-1].reshape(jobs, models)]


def _centred(matrix: np.ndarray, limit: np.ndarray, point: np.ndarray, price: float) -> np.ndarray:
    """Return the point that makes price times the last variable plus the logarithms of the slacks the largest."""
    for _ in range(60):
        slack = limit - matrix @ point
        gradient = matrix.T @ (1 / slack)
        gradient[-1] -= price
        step = -np.linalg.solve((matrix.T / slack**2) @ matrix, gradient)
        decrement = -float(gradient @ step)
        if decrement < 1e-9:
            break
        along = matrix @ step
        most = min((slack[along > 0] / along[along > 0]).tolist(), default=math.inf)
        point = point + min(1.0, 0.9 * most) * step
    return point


class ReferenceFifo:
    """First come, first served, on a model drawn at random for each job, without the defect: order, admission and placement in one.

    Jobs are given models at the beginning of a round, and not within 32 minutes after the last time.
    """

    relative = True
    preempts_by_queue = False
    bounds_waiting = False
    interval_seconds = math.inf

    def __init__(self, gpus: Mapping[str, int], seed: int, at_rounds: bool) -> None:
        """Prepare.

        Args:
            gpus: by model.
            seed: of the draws.
            at_rounds: whether jobs start at the beginning of a round only, and models are given then.
        """
        self._models = _Models(gpus, seed, defect=False)
        self._at_rounds = at_rounds
        self._known: frozenset[str] = frozenset()
        self._given_seconds = -math.inf

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return the order of arrival; give models when it is time."""
        keys = frozenset(job.key for job in jobs)
        due = not self._at_rounds or (
            begins_round(now_seconds)
            and (now_seconds - self._given_seconds >= 1920 - _SLACK or self._given_seconds < _SLACK)
        )
        if keys != self._known and due:
            self._known, self._given_seconds = keys, now_seconds
            self._models.give({job.key: job for job in jobs})
        until = math.inf
        if self._at_rounds:
            until = (math.floor(now_seconds / ROUND_SECONDS + _SLACK) + 1) * ROUND_SECONDS
        return {job.key: Rank(0, (job.created_seconds,), until_seconds=until) for job in jobs}

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Never."""
        return False

    def blocks_later_jobs(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """No: a job that has a model has its GPUs."""
        return False

    def refusal(self, job: Job, capacity: FreeCapacity, now_seconds: float) -> WaitingReason | None:
        """Return a reason for a job without a model."""
        if job.key in self._models.of and (not self._at_rounds or begins_round(now_seconds)):
            return None
        return WaitingReason(WaitingCode.NOT_ADMITTED, "It has no model.", "Others are first.")

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return GPUs of its model."""
        demand = replace(job.demand, models=frozenset({self._models.of[job.key]}))
        return Count().place(replace(job, demand=demand), capacity)

    def profile_key(self, job: Job) -> str:
        """Return what tells jobs apart: each has a model of its own."""
        return job.key


class _Models:
    """The model that each job was given: it keeps it, and a job that ends hands it to the first one in line, as far as it fits."""

    def __init__(self, gpus: Mapping[str, int], seed: int, *, defect: bool) -> None:
        """Prepare.

        Args:
            gpus: by model.
            seed: of the draws.
            defect: whether a job gets the last model that has idle GPUs, and not the one that was drawn, which then leaves the list.
        """
        self._gpus = gpus
        self._draws = random.Random(seed)
        self._defect = defect
        self.of: dict[str, str] = {}
        """By job."""

    def give(self, jobs: Mapping[str, Job]) -> None:
        """Give models as ``FIFOPolicy.get_allocation`` does."""
        free = dict(self._gpus)
        line = sorted(key for key in jobs if key not in self.of)
        for key in sorted(self.of):
            model = self.of[key]
            if key in jobs:
                free[model] -= jobs[key].demand.gpus
                continue
            if line and jobs[line[0]].demand.gpus <= free[model] and _runs_on(jobs[line[0]], model):
                first = line.pop(0)
                self.of[first] = model
                free[model] -= jobs[first].demand.gpus
            del self.of[key]
        models = sorted(model for model, left in free.items() if left > 0)
        while line and models:
            key = line.pop(0)
            able = [model for model in models if free[model] >= jobs[key].demand.gpus]
            if not able:
                break
            drawn = able[self._draws.randrange(len(able))]
            model = models[-1] if self._defect else drawn
            if _runs_on(jobs[key], model):
                self.of[key] = model
                free[model] -= jobs[key].demand.gpus
                if free[model] == 0:
                    models.remove(drawn)


@dataclass(frozen=True)
class DefectiveFifo(Shuffled):
    """First come, first served, with the defect: more jobs get a model than it has GPUs for, and share it in rounds."""

    models: _Models = field(kw_only=True)

    def targets(
        self, jobs: Sequence[RoundJob], gpus: Mapping[str, float]
    ) -> Mapping[str, Mapping[str, float]]:
        """Return all of the time on the model that a job was given."""
        self.models.give({each.job.key: each.job for each in jobs})
        return {
            each.job.key: {self.models.of[each.job.key]: 1.0}
            for each in jobs
            if each.job.key in self.models.of
        }

    def model_order(self, jobs: Sequence[RoundJob], gpus: Mapping[str, float]) -> Sequence[str]:
        """Return them as its simulator draws them, and leave each job no other model than its own."""
        for each in jobs:
            assert isinstance(each.per_second, dict)
            for model in each.per_second.keys() - {self.models.of.get(each.job.key)}:
                del each.per_second[model]
        return Shuffled.model_order(self, jobs, gpus)


def defective_fifo(gpus: Mapping[str, int], seed: int) -> DefectiveFifo:
    """Return the policy with the draws of a seed; its simulator seeds those of the models' order with five more."""
    return DefectiveFifo(models=_Models(gpus, seed, defect=True), shuffler=random.Random(seed + 5))


def _runs_on(job: Job, model: str) -> bool:
    return job.state is not JobState.WAITING or job.speed_on(model) is not None
