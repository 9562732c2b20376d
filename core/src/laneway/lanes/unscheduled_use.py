"""Tells whether a tenant computes without a turn: from its processes' utilisation, as the driver samples it, and its turns.

The driver's samples say which part of a short time before a reading a process computed in. They are up to a second old and may
cover less than the time between two readings. So one of them proves nothing: a process that has just released its turn shows
what it did in it, and one that takes turns may be sampled in its turns only. Over many readings both average out. Turns whose
rounds are as long as the time between readings are met at the same point each time, so the time just before a reading counts
as well. The tenant's
*debt* is the time for which it computed beyond its turns, summed up over readings, less a tolerance. A tenant that keeps to its
turns comes back to zero; one that does not grows without end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TOLERANCE_RATIO: Final = 0.25
"""Part of the time that is not held against anybody."""

DEBT_SECONDS: Final = 6.0
"""A tenant with a larger debt computes without turns. Six times the age of the oldest sample, so that what was sampled in a turn
does not count as computed after it; with turns and samples of any length, chance alone reaches it about once in a thousand
times that it begins to grow."""

_MOST_DEBT_SECONDS: Final = 8.0
"""A larger debt would only take longer to forget."""

_LONGEST_WINDOW_SECONDS: Final = 10.0
"""A reading says little about the time long before it."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What a reading shows of one tenant."""

    now_seconds: float
    busy_ratio: float
    """The part of the time since the last reading in which its busiest process computed, from 0 to 1."""

    turn_seconds: float
    """How long it has held turns so far, in total."""

    recent_turn_ratio: float
    """The part of the last second in which it held a turn."""

    contended: bool
    """Whether another tenant of its lane holds or wants the turn."""


@dataclass(frozen=True, slots=True)
class UnscheduledUse:
    """What is known of one tenant between readings."""

    last: Observation | None = None
    debt_seconds: float = 0.0
    total_seconds: float = 0.0
    """How long it has computed beyond its turns while others wanted the lane. An estimate from samples."""

    grew: bool = False
    """Whether the last reading showed that it computed without a turn."""

    @property
    def computes_without_turn(self) -> bool:
        """Whether it does so now, and has for long enough to be sure."""
        return self.grew and self.debt_seconds > DEBT_SECONDS

    def after(self, seen: Observation | None) -> UnscheduledUse:
        """Return what is known after another reading.

        Args:
            seen: what it shows; None if the driver did not report utilisation. Then nothing is held against the tenant.
        """
        last = self.last
        if seen is None or last is None or seen.now_seconds <= last.now_seconds:
            return UnscheduledUse(seen, 0.0, self.total_seconds)
        window_seconds = min(seen.now_seconds - last.now_seconds, _LONGEST_WINDOW_SECONDS)
        if not (seen.contended and last.contended):
            # Nobody lacked the time that it took.
            return UnscheduledUse(seen, max(0.0, self.debt_seconds - window_seconds), self.total_seconds)
        allowed_seconds = max(seen.turn_seconds - last.turn_seconds, seen.recent_turn_ratio * window_seconds)
        beyond_seconds = seen.busy_ratio * window_seconds - allowed_seconds
        growth_seconds = beyond_seconds - TOLERANCE_RATIO * window_seconds
        debt_seconds = min(max(0.0, self.debt_seconds + growth_seconds), _MOST_DEBT_SECONDS)
        total_seconds = self.total_seconds + max(0.0, beyond_seconds)
        return UnscheduledUse(seen, debt_seconds, total_seconds, growth_seconds > 0)
