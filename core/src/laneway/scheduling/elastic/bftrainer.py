"""Malleable jobs on GPUs that would be idle, by an integer program (BFTrainer, arXiv 2106.12091, section 3).

Over a forward-looking time, a job's outcome is its speed with the new number of workers times that time, less what it would
have done, at the speed that it has now, while it is rescaled. The sum of the outcomes is to be the largest. The paper's
program has a binary variable for each job and node; nodes are alike here and nobody migrates, so it is enough to have
one for each number of workers of a job, which also stands for a speed that is any function of that number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from laneway.scheduling.elastic.policy import MalleableJob, set_apart

MANY_COLUMNS = 2048
"""Variables beyond which jobs choose among fewer numbers of workers; HiGHS solves so many within half a second."""

FEWEST_COUNTS = 12
"""Numbers of workers that a job chooses among in any case."""


class _Column(NamedTuple):
    """One binary variable: a job gets so many workers."""

    job: int
    workers: int
    gpus: int
    outcome: float


@dataclass(frozen=True, slots=True)
class BFTrainer:
    """Idle GPUs to malleable jobs by integer programming (HiGHS)."""

    horizon_seconds: float = 120.0
    """The forward-looking time: about how long the GPUs stay idle before the next change. Longer makes rescaling pay more
    often."""

    scale_up_seconds: float = 30.0
    """For which a job does not train when it gets more workers: it starts again from its checkpoint."""

    scale_down_seconds: float = 30.0
    """The same, when it gets fewer."""

    node_limit: int = 10_000
    """Branches that are searched at most, to bound the time; the best found until then is taken."""

    def __post_init__(self) -> None:
        if not self.horizon_seconds > 0:
            raise ValueError(f"horizon_seconds is {self.horizon_seconds}: write more than 0")
        for name in ("scale_up_seconds", "scale_down_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: write 0 or more")
        if self.node_limit < 1:
            raise ValueError(f"node_limit is {self.node_limit}: write 1 or more")

    def allot(
        self, jobs: Sequence[MalleableJob], free_gpus: Mapping[str, int], now_seconds: float
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
        self, number: int, job: MalleableJob, counts: Sequence[int], gpus_per_node: int
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

    def _rescale_seconds(self, job: MalleableJob, workers: int) -> float:
        if workers > job.workers:
            return self.scale_up_seconds
        return self.scale_down_seconds if workers < job.workers else 0.0


def _thinned(counts: Sequence[int], workers: int, most: int) -> list[int]:
    """Return no more than about ``most`` of a job's numbers of workers: the first, the last, what it has, and between them rather
    the smaller ones, as it matters less whether it has 50 workers or 52 than whether it has 2 or 4."""
    if len(counts) <= most:
        return list(counts)
    steps = {round((len(counts) - 1) ** (number / (most - 1))) for number in range(most)}
    return [count for index, count in enumerate(counts) if index == 0 or index in steps or count == workers]


def _solve(columns: Sequence[_Column], jobs: int, capacity: int, node_limit: int) -> list[_Column]:
    """Return one column of each job, within the capacity, whose outcomes add up to the most."""
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
