"""An overlap: while lanes take turns, the next tenant runs one iteration beside the holder of the turn.

It shows whether running in parallel can gain anything. A full device gives half of its time to each of two tenants. If the
next tenant is faster than that, the device had time to spare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from laneway.lanes.tenant_use import TenantUse

_LONGEST_SECONDS: Final = 1.0
"""An overlap lasts no longer than this and a few iterations, because the tenant may not yield."""

_LONGEST_ITERATIONS: Final = 4
_LONGEST_ITERATION_SECONDS: Final = 5.0
"""An iteration's time is what the tenant reports, so no more of it counts."""

_LEAST_SPEED: Final = 0.6
"""The part of its speed alone that a tenant exceeds beside another if running in parallel gains."""

_LONG_TURN_ITERATIONS: Final = 4
"""An overlap costs the holder half an iteration of the other, which is little in a turn of this many."""

_ROUNDING_SECONDS: Final = 1e-6
_EARLY_SECONDS: Final = 0.05
"""How long before it has to begin an overlap begins, at most: then little of the order of turns changes."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """A tenant runs beside the holder of the turn."""

    key: str
    lane: int
    """Its lane, which does not wait for the others."""

    began_seconds: float
    iterations: int
    """Its counter when the overlap began."""

    busy_seconds: float
    """Its counter when the overlap began."""

    alone_seconds: float
    """The time of its iteration alone."""

    def gains(self, use: TenantUse | None, now_seconds: float) -> bool | None:
        """Return whether running in parallel may gain something; None while the tenant is in its turn.

        Args:
            use: the tenant's use now; None if it has left.
            now_seconds: the current time.
        """
        iteration_seconds = min(self.alone_seconds, _LONGEST_ITERATION_SECONDS)
        longest_seconds = _LONGEST_SECONDS + _LONGEST_ITERATIONS * iteration_seconds
        if use is None or now_seconds - self.began_seconds > longest_seconds:
            return False
        if use.turn_began_seconds is not None:
            return None
        alone_seconds = (use.iterations - self.iterations) * self.alone_seconds
        return alone_seconds > _LEAST_SPEED * (use.busy_seconds - self.busy_seconds)


def next_overlap(
    uses: Sequence[TenantUse],
    alone_seconds: Mapping[str, float | None],
    now_seconds: float,
    *,
    in_long_turn: bool,
) -> Overlap | None:
    """Return the overlap that can begin now: a turn is about to end, and the next tenant may run beside its holder.

    Args:
        uses: the active tenants, whose lanes take turns.
        alone_seconds: the time of an iteration alone of each, by key; None if it is not known.
        now_seconds: the current time.
        in_long_turn: whether the holder's turn must be long beside an iteration, and the overlap must end within it.
    """
    holders = [use for use in uses if use.turn_began_seconds is not None]
    if len(holders) != 1 or not holders[0].inside:
        return None
    (holder,) = holders
    if holder.turn_began_seconds is None or holder.turn_ends_seconds is None:
        return None
    turn_seconds = holder.turn_ends_seconds - holder.turn_began_seconds
    for use in uses:
        of_iteration = alone_seconds.get(use.key)
        if not use.may_overlap or of_iteration is None:
            continue
        spare_seconds = holder.turn_ends_seconds - now_seconds - 2 * of_iteration
        is_long = turn_seconds >= _LONG_TURN_ITERATIONS * of_iteration - _ROUNDING_SECONDS
        if spare_seconds <= 2 * _EARLY_SECONDS and ((is_long and spare_seconds >= 0.0) or not in_long_turn):
            return Overlap(use.key, use.lane, now_seconds, use.iterations, use.busy_seconds, of_iteration)
    return None
