"""The agent's two clocks, injected so that tests can turn them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Where times come from."""

    def monotonic(self) -> float:
        """Return CLOCK_MONOTONIC in seconds: what durations and the page's boundary word are measured with."""
        ...

    def realtime(self) -> float:
        """Return CLOCK_REALTIME in seconds: what records that leave the node carry."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clocks."""

    monotonic = staticmethod(time.monotonic)  # itself, not a call of it: it is read several times a hand-off

    def realtime(self) -> float:
        """Return CLOCK_REALTIME in seconds."""
        return time.time()


class SteadyRealtime:
    """CLOCK_REALTIME of moments that were read on CLOCK_MONOTONIC.

    Two moments keep their order and distance, which two readings of CLOCK_REALTIME do not: turns that follow one another
    must not seem to overlap. A step of CLOCK_REALTIME (by hand, or NTP's first) is followed at the next refresh.
    """

    _STEP_SECONDS = 0.05

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_seconds = clock.realtime() - clock.monotonic()

    def at(self, monotonic_seconds: float) -> float:
        """Return CLOCK_REALTIME, in seconds, of a moment of CLOCK_MONOTONIC."""
        return monotonic_seconds + self._offset_seconds

    def refresh(self) -> None:
        """Follow CLOCK_REALTIME if it was set."""
        offset_seconds = self._clock.realtime() - self._clock.monotonic()
        if abs(offset_seconds - self._offset_seconds) > self._STEP_SECONDS:
            self._offset_seconds = offset_seconds
