"""How jobs share the GPUs of a simulated cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from laneway.scheduling import Node


@dataclass(frozen=True, slots=True)
class Sharing:
    """How many jobs may share a GPU."""

    overcommit: float = 4.0
    """The number of jobs with a whole GPU each that fit on one GPU. Muri (SIGCOMM'22, section 4) puts up to 4 jobs together, one for
    each kind of resource."""

    max_lanes: int = 0
    """The maximum number of lanes of one GPU; 0: as many as its memory holds."""

    def __post_init__(self) -> None:
        if not self.overcommit >= 1:
            raise ValueError(f"overcommit is {self.overcommit}: write 1 or more")
        if self.max_lanes < 0:
            raise ValueError(f"max_lanes is {self.max_lanes}: write 0 for no limit, or the number of lanes")

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
