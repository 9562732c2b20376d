"""How many statuses with only new figures and sentences may be written: position, service, measured bytes.

Each kind has a token bucket. With a few jobs, all statuses are written within seconds; with thousands, they do not keep the API
server busy. Attained service has a smaller bucket of its own, because anybody can compute it from the rest of the status. While
many jobs start, explanations are written at a lower rate and service is not written at all: one such write costs the API server
as much as creating two pods.
"""

from __future__ import annotations

from laneway.operator.config import CycleConfig
from laneway.operator.pacing import (
    EXPLANATIONS_RATIO_WHILE_MANY_START,
    MANY_STARTS,
    SERVICE_WRITES_AT_ONCE,
    SERVICE_WRITES_PER_SECOND,
)


class Allowance:
    """A number a second, saved up to a maximum."""

    def __init__(self, per_second: float, maximum: float) -> None:
        self._per_second = per_second
        self._maximum = maximum
        self._left = maximum
        self._counted_seconds: float | None = None

    def take(self, now_seconds: float) -> bool:
        """Return whether a write may be made now, and count it if so."""
        if self._counted_seconds is not None:
            gained = max(0.0, now_seconds - self._counted_seconds) * self._per_second
            self._left = min(self._maximum, self._left + gained)
        self._counted_seconds = now_seconds
        if self._left < 1:
            return False
        self._left -= 1
        return True


class WriteBudget:
    """The allowances."""

    def __init__(self, config: CycleConfig) -> None:
        per_second = float(config.explanations_per_second)
        while_many_start = per_second * EXPLANATIONS_RATIO_WHILE_MANY_START
        self._explanations = _saved_up(per_second, config)
        self._while_many_start = _saved_up(while_many_start, config)
        self._service = Allowance(SERVICE_WRITES_PER_SECOND, SERVICE_WRITES_AT_ONCE)

    def take_explanation(self, starting: int, now_seconds: float) -> bool:
        """Return whether an explanation may be written now, and count it if so; ``starting`` jobs have writes of a start in flight."""
        allowance = self._explanations if starting <= MANY_STARTS else self._while_many_start
        return allowance.take(now_seconds)

    def take_service(self, starting: int, now_seconds: float) -> bool:
        """Return whether a status with nothing new but service may be written now, and count it if so."""
        return starting <= MANY_STARTS and self._service.take(now_seconds)


def _saved_up(per_second: float, config: CycleConfig) -> Allowance:
    return Allowance(per_second, max(1.0, per_second * config.explain_seconds))
