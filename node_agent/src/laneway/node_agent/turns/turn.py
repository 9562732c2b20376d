"""A turn: the permission of one container to run iterations in one lane, from grant to release."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from laneway.node_agent.event_loop import Timer
from laneway.node_agent.turns.hold import Hold
from laneway.node_agent.turns.session import NANOSECONDS, Session


class TurnEnd(StrEnum):
    """How a turn ended."""

    RELEASED = "released"
    REVOKED = "revoked"
    DIED = "died"


@dataclass(eq=False, slots=True)
class Turn:
    """A turn that runs."""

    number: int
    lane: int
    """The lane that it was granted in. It keeps that lane busy until it ends, wherever its tenant is moved meanwhile."""

    hold: Hold
    began_seconds: float
    """CLOCK_MONOTONIC, as all times here."""

    waited_seconds: float
    holders: list[Session] = field(default_factory=list)
    """The processes that have not released yet."""

    yield_asked_seconds: float | None = None
    check: Timer | None = None
    """When to see whether somebody else is to run."""

    quantum_ends_seconds: float = 0.0
    left_idle: bool = False
    """It was asked for because its holder was between iterations: who comes next fills a gap."""

    iterations: int = 0
    """Of the processes that have released."""

    gpu_seconds: float = 0.0
    """Of the processes that have released."""

    def busy_seconds(self, now_seconds: float) -> float:
        """Return the time inside iterations so far; processes that run side by side count once."""
        now_ns = int(now_seconds * NANOSECONDS)
        began_ns = int(self.began_seconds * NANOSECONDS)
        running = max(
            (session.busy_seconds_since_grant(now_ns, began_ns) for session in self.holders), default=0.0
        )
        return max(self.gpu_seconds, running)

    def idle_since_seconds(self) -> float | None:
        """Return since when no process is inside an iteration; None while one is."""
        since_ns = int(self.began_seconds * NANOSECONDS)
        for session in self.holders:
            if session.page.inside:
                return None
            since_ns = max(since_ns, session.page.boundary_ns)
        return since_ns / NANOSECONDS

    def count_out(self, session: Session, iterations: int, gpu_seconds: float, now_seconds: float) -> None:
        """Take a process out of the turn, with what it did in it; a claim beyond the turn's length counts as its length."""
        self.holders.remove(session)
        self.iterations += iterations
        self.gpu_seconds = max(self.gpu_seconds, min(gpu_seconds, now_seconds - self.began_seconds))
