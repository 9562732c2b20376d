"""Nodes whose GPUs are shared by more jobs than they have hundredths for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from laneway.scheduling import Node


@dataclass(frozen=True, slots=True)
class Sharing:
    """How many may share a GPU."""

    overcommit: float = 4.0
    """A GPU offers so many times its hundredths: so many jobs that each demand a whole GPU can be on it at once. Muri (SIGCOMM'22,
    section 4) puts up to 4 jobs together, one for each kind of resource."""

    max_lanes: int = 0
    """Most lanes of one GPU; 0: as many as its memory holds."""

    def __post_init__(self) -> None:
        if not self.overcommit >= 1:
            raise ValueError(f"overcommit is {self.overcommit}: write 1 or more")
        if self.max_lanes < 0:
            raise ValueError(f"max_lanes is {self.max_lanes}: write 0 for no limit, or the number of lanes")

    def shared(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """Return nodes whose GPUs are shared so."""
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
