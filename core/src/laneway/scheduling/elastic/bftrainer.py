"""Elastic jobs on GPUs that would be idle, by an integer program (BFTrainer, arXiv 2106.12091, section 3).

A job's outcome over a forward-looking time is its speed with the new number of workers times that time, less the work lost at
its current speed while it is rescaled. The program maximises the sum of the outcomes. The paper has a binary variable for
each job and node. Here nodes are alike and jobs do not migrate, so one variable for each number of workers of a job is
enough, and its speed may be any function of that number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from laneway.scheduling.elastic.policy import ElasticJob, set_apart

MANY_COLUMNS = 2048
"""The most binary variables; HiGHS solves this many within half a second. Beyond it, jobs choose among fewer numbers of
workers."""

FEWEST_COUNTS = 12
"""Each job chooses among at least this many numbers of workers."""


class _Column(NamedTuple):
    """One binary variable: a job gets this number of workers."""

    job: int
    workers: int
    gpus: int
    outcome: float


@dataclass(frozen=True, slots=True)
class BFTrainer:
    """Gives idle GPUs to elastic jobs by integer programming (HiGHS)."""

    horizon_seconds: float = 120.0
    """The forward-looking time: about how long the GPUs stay idle before the next change. Longer makes rescaling pay more
    often."""

    scale_up_seconds: float = 30.0
    """The time without training when a job gets more workers, if it was not measured: it restarts from its checkpoint."""

    scale_down_seconds: float = 30.0
    """The time without training when a job gets fewer workers, if it was not measured."""

    node_limit: int = 10_000
    """The most branches searched, which bounds the time; the best solution so far is returned."""

    def __post_init__(self) -> None:
        if not self.horizon_seconds > 0:
            raise ValueError(f"horizon_seconds is {self.horizon_seconds}: write more than 0")
        for name in ("scale_up_seconds", "scale_down_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: write 0 or more")
        if self.node_limit < 1:
            raise ValueError(f"node_limit is {self.node_limit}: write 1 or more")

    def allot(
        self, jobs: Sequence[ElasticJob], free_gpus: Mapping[str, int], now_seconds: float
    ) -> Mapping[str, int]:
        """Return the workers with the largest outcome over the horizon."""
        gpus_per_node = max(free_gpus.values(), default=0)
        allotted, others, capacity = set_apart(jobs, sum(free_gpus.values()))
        most_counts = max(FEWEST_COUNTS, MANY_COLUMNS // max(1, len(others)))
        columns = [
            column
            for number, job in enumerate(others)
            for column in self._columns(
                number, job, _thinned(job.counts(capacity), job.workers, most_counts), gpus_per_node
            )
        ]
        allotted.update({job.key: 0 for job in others})
        for column in _solve(columns, len(others), capacity, self.node_limit):
            allotted[others[column.job].key] = column.workers
        return allotted

    def _columns(
        self, number: int, job: ElasticJob, counts: Sequence[int], gpus_per_node: int
    ) -> list[_Column]:
        speeds = job.speeds(max(counts[-1], job.workers), gpus_per_node)
        one = job.speed_on(job.min_workers, gpus_per_node) / job.min_workers or 1.0
        return [
            _Column(
                number,
                workers,
                workers * job.gpus_per_worker,
                (
                    speeds[workers] * self.horizon_seconds
                    - speeds[job.workers] * self._rescale_seconds(job, workers)
                )
                / one,
            )
            for workers in counts
        ]

    def _rescale_seconds(self, job: ElasticJob, workers: int) -> float:
        if workers == job.workers:
            return 0.0
        if job.rescale_seconds is not None:
            return job.rescale_seconds
        return self.scale_up_seconds if workers > job.workers else self.scale_down_seconds


def _thinned(counts: Sequence[int], workers: int, most: int) -> list[int]:
    """Return no more than about ``most`` of a job's numbers of workers: the first, the last, the current one, and more of the
    small than of the large ones between them: 50 or 52 workers matter less than 2 or 4."""
    if len(counts) <= most:
        return list(counts)
    steps = {round((len(counts) - 1) ** (number / (most - 1))) for number in range(most)}
    return [count for index, count in enumerate(counts) if index == 0 or index in steps or count == workers]


def _solve(columns: Sequence[_Column], jobs: int, capacity: int, node_limit: int) -> list[_Column]:
    """Return one column for each job, within the capacity, with the largest sum of outcomes."""
    if not columns:
        return []
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    numbers = np.arange(len(columns))
    one_each = csr_array(
        (np.ones(len(columns)), (np.array([column.job for column in columns]), numbers)),
        shape=(jobs, len(columns)),
    )
    gpus = csr_array(np.array([[float(column.gpus) for column in columns]]))
    found = milp(
        -np.array([column.outcome for column in columns]),
        integrality=np.ones(len(columns), dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(one_each, 1, 1), LinearConstraint(gpus, 0, capacity)],
        options={"node_limit": node_limit},
    )
    if found.x is None:
        return []
    return [column for column, chosen in zip(columns, found.x, strict=True) if chosen > 0.5]
