"""Co-adaptive allocation by goodput (Pollux, OSDI'21, section 4.2).

Each job's speedup is its goodput over its goodput with a fair share of the cluster, reduced by the cost of a restart if its
workers change. Pollux maximises a power mean of the speedups by a genetic search over placements: 100 generations of 100.
Here placements use the fewest nodes, so the mean becomes a sum over jobs. Dynamic programming over the number of GPUs
(:mod:`.knapsack`) finds the best sum exactly, deterministically and in milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.scheduling.elastic.knapsack import Option, choose
from laneway.scheduling.elastic.policy import ElasticJob, set_apart

NO_SPEEDUP = 1e-3
"""Added to speedups, as in Pollux, so that a job without workers has a large but finite weight."""

EARLIER_FIRST = 1e-9
"""How much less a job weighs than its predecessor, so that of equal jobs the first gets the GPUs."""


@dataclass(frozen=True, slots=True)
class Pollux:
    """Workers by goodput."""

    fairness: float = 0.0
    """Exponent of the power mean over the jobs' speedups, at most 1: 1 is their sum, 0 the geometric mean, lower is fairer.
    Pollux uses -1. With 0 the average JCT of its eight workloads is 1 % lower, and no job's share depends on the definition
    of the fair share."""

    restart_seconds: float = 50.0
    """The time without training when a job's workers change, of a job for which it was not measured: 20 s to save a checkpoint and end, and 30 s until it trains
    again, as in Pollux' simulator (section 5.3)."""

    service_exponent: float = 0.5
    """How the weight of a job falls with its service: (1 + service / ``service_gpu_seconds``) to the power of minus this. 0:
    all weigh the same, as in Pollux. Jobs that have had little are likely to end soon."""

    service_gpu_seconds: float = 3600.0
    """The service at which a job's weight begins to fall notably."""

    stop_ratio: float = 0.5
    """By how much more another job must weigh before a running one loses all of its workers to it. Without this, jobs would
    alternate at each decision while they outnumber the GPUs. With it, a job runs until its service is (1 + 0.5) to the power
    of 2 times the other's."""

    def __post_init__(self) -> None:
        if not self.fairness <= 1:
            raise ValueError(f"fairness is {self.fairness}: write a number up to 1")
        for name in ("restart_seconds", "service_exponent", "stop_ratio"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: write 0 or more")
        if not self.service_gpu_seconds > 0:
            raise ValueError(f"service_gpu_seconds is {self.service_gpu_seconds}: write more than 0")

    def allot(
        self, jobs: Sequence[ElasticJob], free_gpus: Mapping[str, int], now_seconds: float
    ) -> Mapping[str, int]:
        """Return the workers that maximise the mean of the speedups."""
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

    def _weight(self, job: ElasticJob) -> float:
        service_ratio = job.attained_service_gpu_seconds / self.service_gpu_seconds
        return float((1 + service_ratio) ** -self.service_exponent)

    def _values(
        self,
        job: ElasticJob,
        counts: Sequence[int],
        fair_gpus: int,
        gpus_per_node: int,
        now_seconds: float,
    ) -> list[float]:
        """Return the value of each number of workers, 0 first, in the sum that is maximised."""
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

    def _kept_ratio(self, job: ElasticJob, now_seconds: float) -> float:
        """Return the factor on a speedup that needs a restart: the fraction of time left for training if the job keeps
        restarting as often as so far (section 4.2)."""
        if not job.workers:
            return 1.0
        restart_seconds = self.restart_seconds if job.rescale_seconds is None else job.rescale_seconds
        age_seconds = max(0.0, now_seconds - job.created_seconds)
        trained_seconds = max(0.0, age_seconds - job.restarts * restart_seconds)
        return trained_seconds / (age_seconds + restart_seconds) if restart_seconds else 1.0

    def _utility(self, speedup: float) -> float:
        """Return the speedup's share in the power mean, rising with it."""
        if self.fairness == 0:
            return math.log(speedup + NO_SPEEDUP)
        return math.copysign((speedup + NO_SPEEDUP) ** self.fairness, self.fairness)
