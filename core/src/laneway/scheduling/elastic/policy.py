"""The protocol of elastic policies: how many workers each elastic job gets. The placement stage places them. A job whose
number of workers changes restarts from its checkpoint; other jobs are not moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from laneway.scheduling.model.goodput import GoodputModel, ReplicaLayout, consolidated, goodputs


@dataclass(frozen=True, slots=True)
class ElasticJob:
    """A job whose number of workers may be changed."""

    key: str
    """``namespace/name``."""

    min_workers: int
    """The fewest workers with which it runs; it may also wait with none."""

    max_workers: int
    created_seconds: float
    workers_by_node: tuple[int, ...] = ()
    """Workers that it has now on each of its nodes; empty while it waits."""

    gpus_per_worker: int = 1
    attained_service_gpu_seconds: float = 0.0
    restarts: int = 0
    """The number of its restarts."""

    goodput: GoodputModel | None = None
    """None: it has not run yet, or does not report; its speed is then assumed to be linear in its workers."""

    explored_workers: int = 0
    """The most workers that it is known to have had, apart from those that it has now."""

    rescale_seconds: float | None = None
    """How long its last restart with another number of workers kept it from training; None: unknown."""

    preemptible: bool = True
    """False: while it has workers, their number does not change."""

    avoided_workers: frozenset[int] = frozenset()
    """Numbers of workers with which it fails."""

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
        """Its current placement; it must have workers."""
        return ReplicaLayout(len(self.workers_by_node), self.workers)

    def counts(self, most_gpus: int) -> tuple[int, ...]:
        """Return the possible numbers of workers with this many GPUs, rising, 0 first, without those with which it fails. Untried numbers are
        approached by doubling (Pollux, OSDI'21, section 4.1): at most twice the most workers that it has had, or its fewest.
        """
        explored = max(self.workers, self.explored_workers)
        if self.goodput is not None:
            explored = max(explored, self.goodput.explored_replicas)
        most = min(self.max_workers, max(self.min_workers, 2 * explored), most_gpus // self.gpus_per_worker)
        possible = range(self.min_workers, most + 1)
        return (0, *(workers for workers in possible if workers not in self.avoided_workers))

    def speeds(self, most_workers: int, gpus_per_node: int) -> tuple[float, ...]:
        """Return its goodput with 0, 1, … workers on the fewest nodes; for its current number, in its current placement. The
        unit is samples per second, or one worker's speed if no model is known.
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


def set_apart(jobs: Sequence[ElasticJob], gpus: int) -> tuple[dict[str, int], list[ElasticJob], int]:
    """Return the workers of the jobs that keep their number, the other jobs by age, and the GPUs left for those."""
    kept = {job.key: job.workers for job in jobs if job.workers and not job.preemptible}
    others = sorted(
        (job for job in jobs if job.key not in kept), key=lambda job: (job.created_seconds, job.key)
    )
    held = sum(job.workers * job.gpus_per_worker for job in jobs if job.key in kept)
    return kept, others, max(0, gpus - held)


class ElasticPolicy(Protocol):
    """Divides GPUs among elastic jobs. Pure and deterministic; the order of its arguments does not matter."""

    def allot(
        self, jobs: Sequence[ElasticJob], free_gpus: Mapping[str, int], now_seconds: float
    ) -> Mapping[str, int]:
        """Return the number of workers of every job: 0, or between its fewest and its most.

        Args:
            jobs: the elastic ones, running and waiting.
            free_gpus: by node: its GPUs that rigid jobs leave, those that elastic jobs hold now included.
            now_seconds: of the jobs' clock.
        """
        ...
