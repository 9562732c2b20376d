"""PACK: the session that arrived first continues, the others fill its gaps (Salus, MLSys'20, section 3.4.2).

It keeps a lane busy and finishes jobs one after the other; it does not guarantee fairness, so wrap it in a starvation bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laneway.lanes.turns.policy import SessionView


@dataclass(frozen=True, slots=True)
class Pack:
    """First come, first served, by arrival of the session."""

    @property
    def promises_shares(self) -> bool:
        """Earlier jobs come first, whatever their weights."""
        return False

    def enter(self, newcomer: SessionView, active: Iterable[SessionView]) -> float:
        """Service counts unchanged: it does not matter here."""
        return newcomer.gpu_seconds

    def turn_quanta(self, session: SessionView, mean_weight: float) -> float:
        """Each turn is a quantum."""
        return 1.0

    def choose(
        self, waiting: Iterable[SessionView], now_seconds: float, mean_weight: float = 0.0
    ) -> str | None:
        """Return the session that arrived first."""
        first = min(waiting, key=lambda session: (session.arrived_seconds, session.key), default=None)
        return None if first is None else first.key
