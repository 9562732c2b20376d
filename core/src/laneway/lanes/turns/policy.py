"""The protocol of turn policies: their input and output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class SessionView:
    """A session as a turn policy sees it, which no policy changes. Clock values are seconds of one monotonic clock.

    Several are made for each turn, and a frozen one takes five times as long.
    """

    key: str
    arrived_seconds: float
    """When the session opened."""

    waiting_since_seconds: float
    """When it requested the turn that it waits for; for a holder that would continue: now."""

    gpu_seconds: float = 0.0
    """Service that counts: what :meth:`TurnPolicy.enter` returned, plus the time inside iterations since then."""

    weight: int = 1
    """Twice the weight gives twice the service (1 or more)."""

    turns: int = 0
    """The number of its turns so far."""

    attained_seconds: float = 0.0
    """Its total service in all lanes; it is never adjusted."""

    remaining_seconds: float | None = None
    """The service that it still needs; None: not known."""

    def __post_init__(self) -> None:
        if self.weight < 1:
            raise ValueError(f"weight of session {self.key} is {self.weight}: write 1 or more")


class TurnPolicy(Protocol):
    """Chooses the next session of a lane. Pure: the same view gives the same answer."""

    @property
    def promises_shares(self) -> bool:
        """Whether each session is promised its weight's part of the time."""
        ...

    def enter(self, newcomer: SessionView, active: Iterable[SessionView]) -> float:
        """Return the gpu_seconds that a session starts counting from when it joins a lane or comes back to it.

        Args:
            newcomer: the session, with the service that it has had so far.
            active: the lane's sessions that wait or hold the turn.
        """
        ...

    def choose(
        self, waiting: Iterable[SessionView], now_seconds: float, mean_weight: float = 0.0
    ) -> str | None:
        """Return the key of the session that gets the turn; None if no session waits.

        Args:
            waiting: the sessions to compare.
            now_seconds: the time of the choice.
            mean_weight: of all sessions that want the lane; 0: that of the compared ones.
        """
        ...

    def turn_quanta(self, session: SessionView, mean_weight: float) -> float:
        """Return the length of a session's next turn, in quanta.

        Args:
            session: it waits for that turn.
            mean_weight: of the sessions of the lane that wait, that session included, and of the holder.
        """
        ...
