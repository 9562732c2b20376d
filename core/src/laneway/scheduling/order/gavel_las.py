"""Least attained service on GPUs of several models (Gavel, OSDI'20, sections 4.1 and 5).

Each job has a target: the part of the time that it is to have on each GPU model. The targets make the smallest throughput as large as can
be, relative to what each job would have with the same part of every model (:mod:`laneway.scheduling.order.max_min_allocation`). So
a job that gains little from fast GPUs gets more time on slow ones. Time is divided into rounds. In each round, the jobs that have had
the least of their target on a model run there (:mod:`laneway.scheduling.actions.model_rounds`). Within a round no job preempts another
one of its priority; newcomers take idle GPUs, those with the least attained service first.

Differences from the paper: pairs of jobs do not share GPUs, and a job within its minimum run time, or with too much unsaved work, keeps its
GPUs for another round.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from types import MappingProxyType

from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.order.by_position import ByPosition
from laneway.scheduling.order.max_min_allocation import Claimant, max_min_allocation
from laneway.scheduling.order.policy import Rank, RoundJob

_SLOWEST_RATIO = 1e-3
"""A job's speed on its slowest model counts as no less than this part of that on its fastest. Real GPUs differ less, and the figures come
from users' processes: the linear program cannot be solved with numbers that are many orders of magnitude apart."""


@dataclass(frozen=True, slots=True)
class GavelLAS(ByPosition):
    """Max-min fair throughput on GPUs of several models, in rounds."""

    round_seconds: float = 360.0
    """The length of a round: the paper's 6 minutes (section 5). A job that goes to another model is evicted, which costs some 50 s."""

    reallocate_seconds: float = 1920.0
    """The shortest time between two computations of the targets after jobs have come or gone: that of Gavel's public scheduler."""

    heterogeneity_aware: bool = True
    """Whether speeds count in the targets. False: as if each job were as fast on every model that it can use, which is Gavel's baseline LAS."""

    weights: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """The weight of each namespace's jobs: one of weight 2 gets twice the throughput. 1 for namespaces that are not named."""

    def __post_init__(self) -> None:
        if not 0 < self.round_seconds < math.inf:
            raise ValueError(f"round_seconds is {self.round_seconds}: write a time above 0")
        if self.reallocate_seconds < 0:
            raise ValueError(f"reallocate_seconds is {self.reallocate_seconds}: write a time of 0 or more")
        for namespace, weight in self.weights.items():
            if weight <= 0:
                raise ValueError(f"the weight of namespace {namespace} is {weight}: write a number above 0")

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return the rank of each job by the service that was counted last."""
        return {job.key: Rank(0, (job.attained_service_gpu_seconds,)) for job in jobs}

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """No: jobs give way between rounds."""
        return False

    def targets(
        self, jobs: Sequence[RoundJob], gpus: Mapping[str, float]
    ) -> Mapping[str, Mapping[str, float]]:
        """Return by job the part of the time that it is to have on each GPU model."""
        models = sorted(gpus)
        claimants = {each.job.key: self._claimant(each, models) for each in jobs}
        parts = max_min_allocation(list(claimants.values()), [gpus[model] for model in models])
        return {
            key: {model: part for model, part in zip(models, parts[claimant], strict=True) if part > 0}
            for key, claimant in claimants.items()
        }

    def model_order(self, jobs: Sequence[RoundJob], gpus: Mapping[str, float]) -> Sequence[str]:
        """Return the models on which jobs are the fastest first."""
        relative: dict[str, list[float]] = {model: [] for model in gpus}
        for each in jobs:
            for model, speed in each.per_second.items():
                relative[model].append(speed / fmean(each.per_second.values()))
        return sorted(gpus, key=lambda model: (-fmean(relative[model] or [0.0]), model))

    def _claimant(self, each: RoundJob, models: Sequence[str]) -> Claimant:
        speeds = each.per_second if self.heterogeneity_aware else dict.fromkeys(each.per_second, 1.0)
        fastest = max(speeds.values())
        parts = {model: max(speed / fastest, _SLOWEST_RATIO) for model, speed in speeds.items()}
        return Claimant(
            each.gpus,
            tuple(parts.get(model, 0.0) for model in models),
            self.weights.get(each.job.namespace, 1.0),
        )
