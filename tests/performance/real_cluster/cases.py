"""The cases of the comparison: what the operator is configured with, and which jobs it gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from laneway.api.gpu_sharing import OFFERED_PERCENT
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.performance.real_cluster.drawn_jobs import DrawnJob, elastic_jobs, lanes_jobs, rigid_jobs
from tests.performance.real_workload.prediction import operator_config

_FOLDER = Path(__file__).parent
_CLUSTER = _FOLDER / "cluster.yaml"
GPUS_PER_NODE = 2
GPUS = 2 * GPUS_PER_NODE


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration of the operator, with jobs on which it has an effect."""

    name: str
    values: Sequence[Path]
    """Of the chart, each over the one before and the first one over the chart's own."""

    draw: Callable[[str, int], Sequence[DrawnJob]]
    """Draws jobs by submission, from a prefix of their names and a seed."""

    joins: bool = False
    """Whether jobs join others on GPUs: their templates have run before."""

    def jobs(self, seed: int) -> Sequence[DrawnJob]:
        """Return the jobs of a seed."""
        return self.draw(f"{self.name}-{seed}", seed)

    @property
    def config(self) -> OperatorConfig:
        """What the chart gives the operator: the simulation reads the same file."""
        return operator_config(self.values)

    @property
    def offered_percent(self) -> int:
        """What each node offers of its GPUs."""
        return GPUS_PER_NODE * OFFERED_PERCENT[self.config.sharing]


PREEMPTION = Case("preemption", (_CLUSTER, _FOLDER / "preemption.yaml"), rigid_jobs)
"""The costs are measured with its values, because only there jobs are preempted."""

CASES: Sequence[Case] = (
    PREEMPTION,
    Case("default", (_CLUSTER,), rigid_jobs),
    Case("lanes", (_CLUSTER, _FOLDER / "lanes.yaml"), lanes_jobs, joins=True),
    Case("elastic", (_CLUSTER, _FOLDER / "elastic.yaml"), elastic_jobs),
)
DEFAULT_CASES = "default,lanes,elastic"
