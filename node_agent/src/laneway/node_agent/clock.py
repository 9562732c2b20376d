"""The agent's two clocks, injected so that tests can control them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """The source of times."""

    def monotonic(self) -> float:
        """Return CLOCK_MONOTONIC in seconds, used for durations and for the page's boundary word."""
        ...

    def realtime(self) -> float:
        """Return CLOCK_REALTIME in seconds, used in records that leave the node."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clocks."""

    monotonic = staticmethod(
        time.monotonic
    )  # the function itself, without a wrapper: it is read several times per hand-off

    def realtime(self) -> float:
        """Return CLOCK_REALTIME in seconds."""
        return time.time()


class SteadyRealtime:
    """Converts moments of CLOCK_MONOTONIC to CLOCK_REALTIME.

    Two converted moments keep their order and distance, unlike two readings of CLOCK_REALTIME: successive
    turns must not seem to overlap. A step of CLOCK_REALTIME (by hand, or NTP's first) is followed at the next
    refresh.
    """

    _STEP_SECONDS = 0.05

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_seconds = clock.realtime() - clock.monotonic()

    def at(self, monotonic_seconds: float) -> float:
        """Convert a moment of CLOCK_MONOTONIC to CLOCK_REALTIME, in seconds."""
        return monotonic_seconds + self._offset_seconds

    def refresh(self) -> None:
        """Follow a step of CLOCK_REALTIME."""
        offset_seconds = self._clock.realtime() - self._clock.monotonic()
        if abs(offset_seconds - self._offset_seconds) > self._STEP_SECONDS:
            self._offset_seconds = offset_seconds
