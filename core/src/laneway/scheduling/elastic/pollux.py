"""Co-adaptive allocation by goodput (Pollux, OSDI'21, section 4.2).

Each job's speedup is its goodput against what it would have with a fair share of the cluster, and less by the restart where
its workers change. Pollux maximises a power mean of the speedups by a genetic search over placements: 100
generations of 100. Here the mean is taken apart: with placements on the fewest nodes it is a sum over jobs, and the best
sum is found exactly by dynamic programming over the number of GPUs (:mod:`.knapsack`), in milliseconds, and always the
same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.scheduling.elastic.knapsack import Option, choose
from laneway.scheduling.elastic.policy import MalleableJob, set_apart

NO_SPEEDUP = 1e-3
"""Added to speedups, as Pollux does, so that a job without workers weighs much and not without end."""

EARLIER_FIRST = 1e-9
"""By so much less does a job weigh than the one that came before it: of equal ones, the first gets the GPUs."""


@dataclass(frozen=True, slots=True)
class Pollux:
    """Workers by goodput."""

    fairness: float = 0.0
    """Exponent of the power mean over the jobs' speedups, at most 1: 1 is their sum, 0 the geometric mean, lower is fairer. Pollux
    takes -1; with 0 the average JCT of its eight workloads is 1 % less, and no job's share depends on what is called fair."""

    restart_seconds: float = 50.0
    """For which a job does not train when its workers change: 20 s to save a checkpoint and end, and the 30 s until it trains
    again that Pollux' simulator counts (section 5.3)."""

    service_exponent: float = 0.5
    """How much less a job weighs that has had much service: (1 + service / ``service_gpu_seconds``) to the power of minus
    this. 0: all weigh the same, as in Pollux. Jobs that have had little are likely to end soon."""

    service_gpu_seconds: float = 3600.0
    """Service from which on a job weighs notably less."""

    stop_ratio: float = 0.5
    """By how much more another job must weigh before a running one loses all of its workers to it. Without this, jobs that are
    more than the GPUs would take turns at each decision; with it, each turn lasts until the service of who runs has grown to
    a multiple, (1 + 0.5) to the power of 2, of the other's."""

    def __post_init__(self) -> None:
        if not self.fairness <= 1:
            raise ValueError(f"fairness is {self.fairness}: write a number up to 1")
        for name in ("restart_seconds", "service_exponent", "stop_ratio"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: write 0 or more")
        if not self.service_gpu_seconds > 0:
            raise ValueError(f"service_gpu_seconds is {self.service_gpu_seconds}: write more than 0")

    def allot(
        self, jobs: Sequence[MalleableJob], free_gpus: Mapping[str, int], now_seconds: float
    ) -> Mapping[str, int]:
        """Return the workers that make the mean of the speedups largest."""
        gpus_per_node = max(free_gpus.values(), default=0)
        allotted, others, capacity = set_apart(jobs, sum(free_gpus.values()))
        fair_gpus = math.ceil(capacity / max(1, len(others)))
        counts = [job.counts(capacity) for job in others]
        options = []
        for number, (job, of_job) in enumerate(zip(others, counts, strict=True)):
            weight = self._weight(job) * (1 - EARLIER_FIRST * number)
            values = self._values(job, of_job, fair_gpus, gpus_per_node, now_seconds)
            options.append(
                [
                    Option(workers * job.gpus_per_worker, weight * value)
                    for workers, value in zip(of_job, values, strict=True)
                ]
            )
        for job, of_job, index in zip(others, counts, choose(options, capacity), strict=True):
            allotted[job.key] = of_job[index]
        return allotted

    def _weight(self, job: MalleableJob) -> float:
        service_ratio = job.attained_service_gpu_seconds / self.service_gpu_seconds
        return float((1 + service_ratio) ** -self.service_exponent)

    def _values(
        self,
        job: MalleableJob,
        counts: Sequence[int],
        fair_gpus: int,
        gpus_per_node: int,
        now_seconds: float,
    ) -> list[float]:
        """Return what each number of workers, 0 first, adds to the sum that is to be large."""
        fair_workers = max(job.min_workers, min(job.max_workers, fair_gpus // job.gpus_per_worker))
        fair = job.speed_on(fair_workers, gpus_per_node) or 1.0
        speeds = job.speeds(counts[-1], gpus_per_node)
        kept = self._kept_ratio(job, now_seconds)
        values = [
            self._utility(speeds[workers] / fair * (1.0 if workers == job.workers else kept))
            for workers in counts
        ]
        if job.workers:
            has = self._utility(speeds[min(job.workers, counts[-1])] / fair)
            values[0] -= self.stop_ratio * (has - values[0])
        return values

    def _kept_ratio(self, job: MalleableJob, now_seconds: float) -> float:
        """Return what a job keeps of a speedup that takes a restart: if it is restarted as often for so many workers as it
        has been so far, this part of its time is left for training (section 4.2)."""
        if not job.workers:
            return 1.0
        age_seconds = max(0.0, now_seconds - job.created_seconds)
        trained_seconds = max(0.0, age_seconds - job.restarts * self.restart_seconds)
        return trained_seconds / (age_seconds + self.restart_seconds) if self.restart_seconds else 1.0

    def _utility(self, speedup: float) -> float:
        """Return the speedup's share in the power mean, rising with it."""
        if self.fairness == 0:
            return math.log(speedup + NO_SPEEDUP)
        return math.copysign((speedup + NO_SPEEDUP) ** self.fairness, self.fairness)
