"""The cases of the comparison: the same jobs under the default policy, alone on their GPUs, two on a GPU, and with preemption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from laneway.scheduling.config.operator_config import OperatorConfig

from tests.performance.real_workload.prediction import operator_config
from tests.performance.real_workload.workload import WorkloadJob, read_workload

_FOLDER = Path(__file__).parent
_DEFAULT = (_FOLDER / "cluster.yaml", _FOLDER / "default.yaml")


@dataclass(frozen=True, slots=True)
class Case:
    """What the operator is configured with, and what the jobs request."""

    name: str
    values: Sequence[Path]
    """Of the chart, each over the one before."""

    most_percent: int = 100
    """No worker requests more of a GPU."""

    @property
    def config(self) -> OperatorConfig:
        """What the chart gives the operator: the simulation reads the same file."""
        return operator_config(self.values)

    def jobs(self, count: int, run: int) -> tuple[WorkloadJob, ...]:
        """Return the first jobs of the workload, with names of their own in each run: a checkpoint is found by its job's name."""
        return tuple(
            replace(
                job, name=f"run-{run}-{job.name}", share_percent=min(job.share_percent, self.most_percent)
            )
            for job in read_workload()[:count]
        )


CASES: Sequence[Case] = (
    Case("preemption", (_FOLDER / "cluster.yaml", _FOLDER / "preemption.yaml")),
    Case("default", _DEFAULT),
    Case("sharing", _DEFAULT, most_percent=50),
)
"""In the order in which they are run: the costs are measured in the first, because only there are jobs preempted."""
