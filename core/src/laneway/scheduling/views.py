"""What of the ledger's holds counts, for one question or another, and what is free then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from laneway.lanes import Crowd
from laneway.scheduling.free_index import FreeIndex

Level = tuple[int, int]
"""(-priority, queue): who may take the GPUs of whom. A job can make those of larger levels make way."""


class View(NamedTuple):
    """What counts as held."""

    now: bool = False
    """Departing holds count, as far as reserved ones don't cover them: what a job can start on. Else they don't: what
    a job can wait for."""

    below: Level | None = None
    """Settled and parked holds of larger levels don't count: what a job could have if others made way."""

    def counts(self, level: Level | None) -> bool:
        """Whether a settled or parked hold of this level counts."""
        return self.below is None or level is None or level <= self.below


NOW = View(now=True)
LATER = View()


@dataclass(eq=False, slots=True)
class Look:
    """A view with an index of what is free in it. The index catches up when it is asked for."""

    view: View
    index: FreeIndex
    seen: int
    """How much of the ledger's list of touched GPUs the index knows."""

    touched: set[int] = field(default_factory=set)
    """Numbers of GPUs on which something has changed that only some views see."""

    crowds: dict[int, Crowd] = field(default_factory=dict)
    """By GPU number: whose memory counts there, summed up."""

    idle_decisions: int = 0
    """Since it was asked for."""

    def touch(self, shares: tuple[tuple[int, int], ...]) -> None:
        """Note that the holds on some GPUs, given by number and percent, count otherwise in this view."""
        for number, _ in shares:
            self.touched.add(number)
            self.crowds.pop(number, None)
