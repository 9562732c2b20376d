"""What an elastic policy answers: how many workers each malleable job gets.

Where they go is the placement stage's business. A job whose number of workers changes is restarted from its checkpoint
with the new number; one whose number stays is left where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from laneway.scheduling.model.goodput import GoodputModel, ReplicaLayout, consolidated, goodputs


@dataclass(frozen=True, slots=True)
class MalleableJob:
    """A job whose number of workers may be changed."""

    key: str
    """``namespace/name``."""

    min_workers: int
    """It runs with no fewer; it may also wait, with none."""

    max_workers: int
    created_seconds: float
    workers_by_node: tuple[int, ...] = ()
    """Workers that it has now on each of its nodes; empty while it waits."""

    gpus_per_worker: int = 1
    attained_service_gpu_seconds: float = 0.0
    restarts: int = 0
    """How often it has been started again."""

    goodput: GoodputModel | None = None
    """None: it has not run yet, or does not report; its speed is then taken to grow with its workers."""

    preemptible: bool = True
    """False: while it has workers, it keeps just those."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_workers <= self.max_workers:
            raise ValueError(
                f"job {self.key} runs with {self.min_workers} to {self.max_workers} workers: write a range from 1 up"
            )
        if self.gpus_per_worker < 1:
            raise ValueError(f"gpus_per_worker of job {self.key} is {self.gpus_per_worker}: write 1 or more")

    @property
    def workers(self) -> int:
        """Workers that it has now."""
        return sum(self.workers_by_node)

    @property
    def shape(self) -> ReplicaLayout:
        """Its placement now; it has workers."""
        return ReplicaLayout(len(self.workers_by_node), self.workers)

    def counts(self, most_gpus: int) -> tuple[int, ...]:
        """Return the numbers of workers that it may be given of so many GPUs, rising, 0 first.

        What was not tried yet is approached by doubling (Pollux, OSDI'21, section 4.1): no more than twice the
        workers that it has ever had, or its fewest.
        """
        explored = self.workers if self.goodput is None else max(self.workers, self.goodput.explored_replicas)
        most = min(self.max_workers, max(self.min_workers, 2 * explored), most_gpus // self.gpus_per_worker)
        return (0, *range(self.min_workers, most + 1))

    def speeds(self, most_workers: int, gpus_per_node: int) -> tuple[float, ...]:
        """Return its goodput with 0, 1, … workers on the fewest nodes, and with those that it has where they are.

        The unit is the job's own: samples a second, or that of one worker where nothing is known.
        """
        if self.goodput is None:
            return tuple(float(workers) for workers in range(most_workers + 1))
        table = list(goodputs(self.goodput, most_workers, max(1, gpus_per_node // self.gpus_per_worker)))
        if 0 < self.workers <= most_workers:
            table[self.workers] = self.goodput.best(self.shape).goodput
        return tuple(table)

    def speed_on(self, workers: int, gpus_per_node: int) -> float:
        """Return its goodput with some workers on the fewest nodes."""
        if self.goodput is None:
            return float(workers)
        per_node = max(1, gpus_per_node // self.gpus_per_worker)
        return self.goodput.best(consolidated(workers, per_node)).goodput


def set_apart(jobs: Sequence[MalleableJob], gpus: int) -> tuple[dict[str, int], list[MalleableJob], int]:
    """Return the workers of the jobs that keep what they have, the other jobs by age, and the GPUs left to those."""
    kept = {job.key: job.workers for job in jobs if job.workers and not job.preemptible}
    others = sorted(
        (job for job in jobs if job.key not in kept), key=lambda job: (job.created_seconds, job.key)
    )
    held = sum(job.workers * job.gpus_per_worker for job in jobs if job.key in kept)
    return kept, others, max(0, gpus - held)


class ElasticPolicy(Protocol):
    """Divides GPUs among malleable jobs. Pure, deterministic, and the same however its arguments are listed."""

    def allot(
        self, jobs: Sequence[MalleableJob], free_gpus: Mapping[str, int], now_seconds: float
    ) -> Mapping[str, int]:
        """Return by job the workers that it is to have: 0, or its fewest up to its most; every job is in it.

        Args:
            jobs: the malleable ones, running and waiting.
            free_gpus: by node: its GPUs that rigid jobs leave, those that malleable jobs hold now included.
            now_seconds: of the jobs' clock.
        """
        ...
