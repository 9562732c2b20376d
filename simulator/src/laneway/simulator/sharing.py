"""How jobs share the GPUs of a simulated cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from laneway.api.training_job import DEFAULT_MAX_SLOWDOWN_PERCENT
from laneway.scheduling import Node
from laneway.simulator.trace import TraceJob


@dataclass(frozen=True, slots=True)
class Sharing:
    """How many jobs may share a GPU."""

    overcommit: float = 4.0
    """The number of jobs with a whole GPU each that fit on one GPU. Muri (SIGCOMM'22, section 4) puts up to 4 jobs together, one for
    each kind of resource."""

    max_lanes: int = 0
    """The maximum number of lanes of one GPU; 0: as many as its memory holds."""

    max_slowdown_percent: float = DEFAULT_MAX_SLOWDOWN_PERCENT
    """The bound of a trace's jobs: the most of its speed that each may lose to jobs that join it. 100: no bound."""

    def __post_init__(self) -> None:
        if not self.overcommit >= 1:
            raise ValueError(f"overcommit is {self.overcommit}: write 1 or more")
        if self.max_lanes < 0:
            raise ValueError(f"max_lanes is {self.max_lanes}: write 0 for no limit, or the number of lanes")

        if not 0 <= self.max_slowdown_percent <= 100:
            raise ValueError(f"max_slowdown_percent is {self.max_slowdown_percent}: write 0 to 100")

    def bounded(self, jobs: Iterable[TraceJob]) -> tuple[TraceJob, ...]:
        """Return the jobs with this bound."""
        ratio = self.max_slowdown_percent / 100
        return tuple(replace(job, demand=replace(job.demand, max_slowdown_ratio=ratio)) for job in jobs)

    def shared(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """Return the nodes with their GPUs shared like this."""
        return tuple(
            replace(
                node,
                gpus=tuple(
                    replace(
                        gpu,
                        allocatable_percent=round(100 * self.overcommit),
                        lane_rules=replace(gpu.lane_rules, max_lanes=self.max_lanes),
                    )
                    for gpu in node.gpus
                ),
            )
            for node in nodes
        )
