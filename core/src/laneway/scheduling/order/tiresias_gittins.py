"""Discretised two-dimensional Gittins index (Tiresias, NSDI'19, section 3.2): the services of past jobs decide.

They are given, or learnt from the jobs that have ended so far. Before enough have ended, jobs of one queue are ordered as by 2D-LAS: those
that run, then by arrival.

The queues are those of 2D-LAS. Within a queue, the job that is likely to end soon for little service goes first, by the
distribution of the services of past jobs; of equals, the oldest. A running job has no bonus, so jobs of one queue preempt
one another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from laneway.scheduling.model.past_services import NO_SERVICES, PastServices
from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.order.by_position import ByPosition
from laneway.scheduling.order.gittins_index import (
    GittinsTable,
    gittins_table,
    learnt_table,
    log_normal_samples,
)
from laneway.scheduling.order.policy import Rank
from laneway.scheduling.order.service_queues import arrival_within_queue, check, queue_place


@dataclass(frozen=True, slots=True)
class TiresiasGittins(ByPosition):
    """Highest Gittins index first, in queues by attained service."""

    samples_gpu_seconds: tuple[float, ...] = ()
    """Services of past jobs of this cluster, in any order; some hundreds will do. Empty: they are learnt."""

    learn_after_jobs: int = 100
    """The number of completed jobs from which on their services decide; before, only the queues do, as under tiresias-las. 0: nothing is
    learnt, and the log-normal distribution of the next two parameters decides."""

    median_gpu_seconds: float = 600.0
    """The median service, if there are no samples and nothing is learnt. An assumption, not a measurement: most jobs of training clusters are tests
    and failures of minutes."""

    p95_gpu_seconds: float = 36_000.0
    """The 95th percentile of the service, in the same case: ten GPU-hours. The log-normal distribution through both
    has a mean of almost four GPU-hours, so a few jobs do most of the work."""

    quantum_gpu_seconds: float = 3250.0
    """How far the index looks ahead: the first threshold, as in Tiresias' own simulator."""

    thresholds_gpu_seconds: tuple[float, ...] = (3250.0, 7200.0)
    """Service at which a job falls into the next queue."""

    promotion_factor: float = 0.0
    """A job that has waited this many times what it has executed is in the first queue, and its service counts from 0, for
    its index too; 0: never."""

    last_queue_by_arrival: bool = False
    """Whether jobs of the last queue keep their order, as under tiresias-las: those that run, then by arrival. There the index depends
    on the grain of the distribution more than on the job, and by it jobs that train for days take turns, so all of them end late. On three published traces
    the average completion time is 1 to 44 percent lower with it. The 99th percentile is 20 percent lower on one, and 1.8 to 3.1 times as
    high on the others."""

    past: PastServices = field(default=NO_SERVICES, init=False, repr=False)
    """The services of the jobs that have ended; see :meth:`informed`."""

    def __post_init__(self) -> None:
        check(self.thresholds_gpu_seconds, self.promotion_factor)
        if any(sample <= 0 for sample in self.samples_gpu_seconds):
            raise ValueError("samples_gpu_seconds has one of 0 or less: write services above 0")
        if not 0 < self.median_gpu_seconds < self.p95_gpu_seconds:
            raise ValueError(
                f"median_gpu_seconds is {self.median_gpu_seconds} and p95_gpu_seconds {self.p95_gpu_seconds}: "
                "write services above 0, the median the smaller one"
            )
        if self.learn_after_jobs < 0:
            raise ValueError(
                f"learn_after_jobs is {self.learn_after_jobs}: write 0 to learn nothing, or a number of jobs"
            )
        if self.quantum_gpu_seconds <= 0:
            raise ValueError(f"quantum_gpu_seconds is {self.quantum_gpu_seconds}: write a service above 0")

    @property
    def learns(self) -> bool:
        """Whether the services of ended jobs decide, once there are enough of them."""
        return not self.samples_gpu_seconds and self.learn_after_jobs > 0

    def informed(self, past: PastServices) -> TiresiasGittins:
        """Return this policy with the services of the jobs that have ended so far."""
        policy = replace(self)
        object.__setattr__(policy, "past", past)
        return policy

    @property
    def table(self) -> GittinsTable | None:
        """The index by attained service; None: too few jobs have ended."""
        if not self.learns:
            samples = self.samples_gpu_seconds or log_normal_samples(
                self.median_gpu_seconds, self.p95_gpu_seconds
            )
            return gittins_table(samples, self.quantum_gpu_seconds)
        if self.past.completed < self.learn_after_jobs:
            return None
        return learnt_table(self.past, self.quantum_gpu_seconds)

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return each job's queue, and its index there."""
        table = self.table
        return {job.key: self._rank(job, table, now_seconds) for job in jobs}

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Whether the waiting job is in a higher queue, or has a higher index there, or an equal one and is older."""
        return (waiting.queue, waiting.position) < (running.queue, running.position)

    def _rank(self, job: Job, table: GittinsTable | None, now_seconds: float) -> Rank:
        stands = queue_place(
            job, self.thresholds_gpu_seconds, self.promotion_factor, now_seconds, within_first=True
        )
        by_arrival = table is None or (
            self.last_queue_by_arrival and stands.queue == len(self.thresholds_gpu_seconds)
        )
        if table is None or by_arrival:
            position = arrival_within_queue(job)
        else:
            position = (-table.index(stands.service_gpu_seconds), job.created_seconds)
        drifts = job.state is JobState.RUNNING and not by_arrival
        return Rank(stands.queue, position, stands.promoted, stands.until_seconds, drifts=drifts)
