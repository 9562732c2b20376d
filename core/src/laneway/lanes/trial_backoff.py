"""When lanes that take turns try to run in parallel: exponential backoff, which starts again once the tenants change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Paces = Mapping[str, float | None]
"""The time of an iteration alone of each active tenant, by key; None if it is not known."""


@dataclass(slots=True)
class TrialBackoff:
    """Says when the next trial is due. It reads no clock."""

    first_seconds: float
    factor: float
    """By how much the time until the next trial grows with each that fails."""

    longest_seconds: float
    pace_factor: float
    """A tenant has changed its pace if an iteration takes this many times as long, or as short."""

    interval_seconds: float = field(init=False)
    due_seconds: float = 0.0
    _paces_at_failure: Paces | None = None
    """None if no trial has failed since the tenants changed."""

    def __post_init__(self) -> None:
        self.interval_seconds = self.first_seconds

    def schedule(self, now_seconds: float) -> None:
        """Have the next trial after the interval."""
        self.due_seconds = now_seconds + self.interval_seconds

    def fail(self, paces: Paces) -> None:
        """Make the interval longer, because a trial has failed."""
        self.interval_seconds = min(self.factor * self.interval_seconds, self.longest_seconds)
        self._paces_at_failure = paces

    def succeed(self) -> None:
        """Have the first interval again."""
        self.interval_seconds = self.first_seconds

    def restart_if_changed(self, paces: Paces, now_seconds: float) -> None:
        """Have a trial after the first interval if a tenant has joined, left or changed its pace since one failed."""
        before = self._paces_at_failure
        if before is None:
            return
        if paces.keys() == before.keys() and not any(self._differ(before[key], paces[key]) for key in paces):
            return
        self._paces_at_failure, self.interval_seconds = None, self.first_seconds
        self.due_seconds = min(self.due_seconds, now_seconds + self.interval_seconds)

    def _differ(self, before_seconds: float | None, pace_seconds: float | None) -> bool:
        if before_seconds is None or pace_seconds is None:
            return False
        return max(before_seconds, pace_seconds) > self.pace_factor * min(before_seconds, pace_seconds)
