"""What leaves in an iteration: everything, what a plan says, or what has to because memory runs short."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Optional

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.fit.custody import Custody, Saved
    from laneway.client.fit.liveness import Liveness
    from laneway.client.fit.planner import Plan

PRESSURE_RATIO: Final = 0.85
"""Above this part of the budget storages leave, the oldest first, in an iteration of which nothing is known."""
ROOM_FOR_LARGEST: Final = 4
"""So many times the largest storage seen is left free beside: an operation has inputs, results and gradients of that size at a time."""


class Everything:
    """While it is learned, and where no plan fits."""

    def leaves(self, saved: Saved) -> bool:
        """All do."""
        return True

    def fetch_after(self, number: int) -> tuple[int, ...]:
        """Each comes when it is read."""
        return ()


class UnderPressure:
    """While it is not known whether anything has to leave at all."""

    def __init__(self, custody: Custody, held: Callable[[], int], budget_bytes: int) -> None:
        self.pressed = False
        """Something had to."""
        self._custody = custody
        self._held = held
        self._budget_bytes = budget_bytes
        self._largest_bytes = 0

    def leaves(self, saved: Saved) -> bool:
        """Makes room first among those that were saved before."""
        self._largest_bytes = max(self._largest_bytes, saved.size)
        if not self._is_short():
            return False
        self.pressed = True
        for older in self._custody.kept():
            if older is saved:
                break
            self._custody.send(older)
            if not self._is_short():
                return False
        return True

    def fetch_after(self, number: int) -> tuple[int, ...]:
        """Each comes when it is read."""
        return ()

    def _is_short(self) -> bool:
        free_bytes = self._budget_bytes - self._held()
        return free_bytes < max(
            (1 - PRESSURE_RATIO) * self._budget_bytes, ROOM_FOR_LARGEST * self._largest_bytes
        )


@dataclass(frozen=True)
class Known:
    """An iteration that was learned."""

    liveness: Liveness
    plan: Plan
    held_bytes: int
    """What was held when it began."""
    corrections: int = 0
    """How often it needed more than was learned."""

    def resembles(self, number: int, size_bytes: int) -> bool:
        """Whether its storage of this number is of this size."""
        storages = self.liveness.storages
        return number < len(storages) and storages[number].size_bytes == size_bytes


class Planned:
    """Follows the plan of the known iteration that this one resembles so far."""

    def __init__(self, known: list[Known]) -> None:
        self.surprised = False
        """It is none of those that are known; what is saved from then on leaves."""
        self._matching = known

    def leaves(self, saved: Saved) -> bool:
        """What the plan says."""
        if self._matching:
            self._matching = [each for each in self._matching if each.resembles(saved.number, saved.size)]
        if not self._matching:
            self.surprised = True
            return True
        return saved.number in self._matching[0].plan.away

    def fetch_after(self, number: int) -> tuple[int, ...]:
        """What the plan says."""
        return self._matching[0].plan.fetch_after.get(number, ()) if self._matching else ()

    @property
    def followed(self) -> Optional[Known]:
        """The known iteration that this one was."""
        return self._matching[0] if self._matching else None
