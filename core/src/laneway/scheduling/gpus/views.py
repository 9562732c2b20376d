"""Views of the allocations: which of them count, and what is free then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from laneway.lanes import MemoryUsage
from laneway.scheduling.gpus.free_index import FreeIndex
from laneway.scheduling.gpus.host_limits import HostLimits
from laneway.scheduling.gpus.hosts_left import HostsLeft

Level = tuple[int, int]
"""(-priority, queue). A job may preempt jobs of larger levels."""


class View(NamedTuple):
    """Which allocations count."""

    idle: bool = False
    """Releasing allocations count, as far as pipelined ones do not cover them: what is free now. Else they do not count: what is
    free once they are gone."""

    below: Level | None = None
    """Allocated and paused jobs of larger levels do not count: what a job could have if all of them were preempted."""

    def counts(self, level: Level | None) -> bool:
        """Whether an allocated or paused job of this level counts."""
        return self.below is None or level is None or level <= self.below


IDLE = View(idle=True)
"""What a job can start on. The term is Volcano's, as FutureIdle is."""

FUTURE_IDLE = View()
"""What a job can be pipelined on."""


@dataclass(eq=False, slots=True)
class TrackedView:
    """A view with an index of what is free in it. The index catches up with changes when it is used."""

    view: View
    index: FreeIndex
    host_limits: HostLimits
    hosts_left: HostsLeft
    seen: int
    """Position in the list of changed GPUs up to which the index is current."""

    touched: set[int] = field(default_factory=set)
    """Numbers of GPUs with changes that only some views see."""

    memory_usage: dict[int, MemoryUsage] = field(default_factory=dict)
    """By GPU number: the memory that counts there."""

    idle_decisions: int = 0
    """Cycles since it was used."""

    def touch(self, shares: tuple[tuple[int, int], ...]) -> None:
        """Note a change of some GPUs, given by number and percent, that this view sees."""
        for number, _ in shares:
            self.touched.add(number)
            self.memory_usage.pop(number, None)
