"""Discretised two-dimensional Gittins index (Tiresias, NSDI'19, section 3.2): the services of past jobs decide.

The queues are those of 2D-LAS. Within a queue, the job that is likely to end soon for little service goes first, by the
distribution of the services of past jobs; of equals, the oldest. A running job has no bonus, so jobs of one queue preempt
one another.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.order.gittins_index import GittinsTable, gittins_table, log_normal_samples
from laneway.scheduling.order.policy import Rank
from laneway.scheduling.order.service_queues import check, queue_place


@dataclass(frozen=True, slots=True)
class TiresiasGittins:
    """Highest Gittins index first, in queues by attained service."""

    samples_gpu_seconds: tuple[float, ...] = ()
    """Services of past jobs of this cluster, in any order; some hundreds will do. Empty: the log-normal distribution of the
    next two parameters."""

    median_gpu_seconds: float = 600.0
    """The median service, if there are no samples. An assumption, not a measurement: most jobs of training clusters are tests
    and failures of minutes."""

    p95_gpu_seconds: float = 36_000.0
    """The 95th percentile of the service, if there are no samples: ten GPU-hours. The log-normal distribution through both
    has a mean of almost four GPU-hours, so a few jobs do most of the work."""

    quantum_gpu_seconds: float = 3250.0
    """How far the index looks ahead: the first threshold, as in Tiresias' own simulator."""

    thresholds_gpu_seconds: tuple[float, ...] = (3250.0, 7200.0)
    """Service at which a job falls into the next queue."""

    promotion_factor: float = 0.0
    """A job that has waited this many times what it has executed is in the first queue, and its service counts from 0, for
    its index too; 0: never."""

    def __post_init__(self) -> None:
        check(self.thresholds_gpu_seconds, self.promotion_factor)
        if any(sample <= 0 for sample in self.samples_gpu_seconds):
            raise ValueError("samples_gpu_seconds has one of 0 or less: write services above 0")
        if not 0 < self.median_gpu_seconds < self.p95_gpu_seconds:
            raise ValueError(
                f"median_gpu_seconds is {self.median_gpu_seconds} and p95_gpu_seconds {self.p95_gpu_seconds}: "
                "write services above 0, the median the smaller one"
            )
        if self.quantum_gpu_seconds <= 0:
            raise ValueError(f"quantum_gpu_seconds is {self.quantum_gpu_seconds}: write a service above 0")

    @property
    def relative(self) -> bool:
        """No: a job's own service decides."""
        return False

    @property
    def preempts_by_queue(self) -> bool:
        """The index decides, within a queue too."""
        return False

    @property
    def bounds_waiting(self) -> bool:
        """No, as in the paper."""
        return False

    @property
    def interval_seconds(self) -> float:
        """Changes of a queue are announced; changes of an index take effect in the next cycle that happens for another
        reason."""
        return math.inf

    @property
    def table(self) -> GittinsTable:
        """The index by attained service."""
        samples = self.samples_gpu_seconds or log_normal_samples(
            self.median_gpu_seconds, self.p95_gpu_seconds
        )
        return gittins_table(samples, self.quantum_gpu_seconds)

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return each job's queue, and its index there."""
        table = self.table
        return {job.key: self._rank(job, table, now_seconds) for job in jobs}

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Whether the waiting job is in a higher queue, or has a higher index there, or an equal one and is older."""
        return (waiting.queue, waiting.position) < (running.queue, running.position)

    def blocks_later_jobs(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """No: jobs that fit may pass."""
        return False

    def _rank(self, job: Job, table: GittinsTable, now_seconds: float) -> Rank:
        stands = queue_place(
            job, self.thresholds_gpu_seconds, self.promotion_factor, now_seconds, within_first=True
        )
        return Rank(
            stands.queue,
            (-table.index(stands.service_gpu_seconds), job.created_seconds),
            stands.promoted,
            stands.until_seconds,
            drifts=job.state is JobState.RUNNING,
        )
