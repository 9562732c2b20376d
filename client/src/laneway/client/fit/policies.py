"""Policies for an iteration: offload everything, follow a plan, or offload under memory pressure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Optional

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.fit.liveness import Liveness
    from laneway.client.fit.planner import Plan
    from laneway.client.fit.saved_activations import SavedActivations, SavedStorage

PRESSURE_RATIO: Final = 0.85
"""Above this part of the budget, the oldest storages are offloaded in an iteration about which nothing is
known."""
FREE_PER_LARGEST: Final = 4
"""Free memory to keep, in multiples of the largest storage: an operation has inputs, results and gradients of
that size at a time."""


class OffloadAll:
    """For learning, and where no plan fits."""

    def should_offload(self, saved: SavedStorage) -> bool:
        """Returns True."""
        return True

    def prefetch_after(self, number: int) -> tuple[int, ...]:
        """Returns nothing: storages come back when they are read."""
        return ()


class OffloadUnderPressure:
    """For iterations that may or may not need offloading."""

    def __init__(self, activations: SavedActivations, held: Callable[[], int], budget_bytes: int) -> None:
        self.has_offloaded = False
        """Something had to be offloaded."""
        self._activations = activations
        self._held = held
        self._budget_bytes = budget_bytes
        self._largest_bytes = 0

    def should_offload(self, saved: SavedStorage) -> bool:
        """Frees memory by offloading older storages first."""
        self._largest_bytes = max(self._largest_bytes, saved.size)
        if not self._is_short():
            return False
        self.has_offloaded = True
        for older in self._activations.kept():
            if older is saved:
                break
            self._activations.offload(older)
            if not self._is_short():
                return False
        return True

    def prefetch_after(self, number: int) -> tuple[int, ...]:
        """Returns nothing: storages come back when they are read."""
        return ()

    def _is_short(self) -> bool:
        free_bytes = self._budget_bytes - self._held()
        return free_bytes < max(
            (1 - PRESSURE_RATIO) * self._budget_bytes, FREE_PER_LARGEST * self._largest_bytes
        )


@dataclass(frozen=True)
class LearnedIteration:
    """A learned iteration."""

    liveness: Liveness
    plan: Plan
    held_bytes: int
    """What was held when it began."""
    corrections: int = 0
    """How often it needed more than learned."""

    def matches(self, number: int, size_bytes: int) -> bool:
        """Returns whether its storage of this number has this size."""
        storages = self.liveness.storages
        return number < len(storages) and storages[number].size_bytes == size_bytes


class FollowPlan:
    """Follows the plan of the learned iteration that this one matches so far."""

    def __init__(self, learned: list[LearnedIteration]) -> None:
        self.is_mismatch = False
        """No learned iteration matches; what is saved from then on is offloaded."""
        self._candidates = learned

    def should_offload(self, saved: SavedStorage) -> bool:
        """Returns what the plan says."""
        if self._candidates:
            self._candidates = [each for each in self._candidates if each.matches(saved.number, saved.size)]
        if not self._candidates:
            self.is_mismatch = True
            return True
        return saved.number in self._candidates[0].plan.offloaded

    def prefetch_after(self, number: int) -> tuple[int, ...]:
        """Returns what the plan says."""
        return self._candidates[0].plan.prefetch_after.get(number, ()) if self._candidates else ()

    @property
    def followed(self) -> Optional[LearnedIteration]:
        """The learned iteration that this one matched."""
        return self._candidates[0] if self._candidates else None
