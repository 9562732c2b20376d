"""A bound on waiting, around any turn policy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laneway.lanes.turns.policy import SessionView, TurnPolicy


@dataclass(frozen=True, slots=True)
class StarvationBound:
    """A session that has waited for ``bound_seconds`` is next, the longest waiting first; otherwise the policy decides.

    With n sessions whose turns last q seconds no session waits longer than ``bound_seconds + n·q``.
    """

    policy: TurnPolicy
    bound_seconds: float

    def __post_init__(self) -> None:
        if self.bound_seconds <= 0:
            raise ValueError(f"bound_seconds is {self.bound_seconds}: write a time above 0")

    @property
    def promises_shares(self) -> bool:
        """Delegate to the policy."""
        return self.policy.promises_shares

    def enter(self, newcomer: SessionView, active: Iterable[SessionView]) -> float:
        """Delegate to the policy."""
        return self.policy.enter(newcomer, active)

    def turn_quanta(self, session: SessionView, mean_weight: float) -> float:
        """Delegate to the policy."""
        return self.policy.turn_quanta(session, mean_weight)

    def choose(
        self, waiting: Iterable[SessionView], now_seconds: float, mean_weight: float = 0.0
    ) -> str | None:
        """Return the longest waiting overdue session, else the choice of the policy."""
        sessions = tuple(waiting)
        overdue_since_seconds = now_seconds - self.bound_seconds
        overdue = [s for s in sessions if s.waiting_since_seconds <= overdue_since_seconds]
        if overdue:
            return min(overdue, key=lambda session: (session.waiting_since_seconds, session.key)).key
        return self.policy.choose(sessions, now_seconds, mean_weight)
