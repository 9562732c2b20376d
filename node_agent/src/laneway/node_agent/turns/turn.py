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

    waited_seconds: float = 0.0
    holders: list[Session] = field(default_factory=list)
    """The processes that have not released yet."""

    yield_asked_seconds: float | None = None
    wanted_since_seconds: float | None = None
    """Since when somebody else wants the lane."""

    busy_before_seconds: float = 0.0
    """Time inside iterations up to then."""

    check: Timer | None = None
    """When to see whether somebody else is to run."""

    quantum_ends_seconds: float = 0.0
    heir: str = ""
    """Who the policy prefers to follow, as it was when the turn was asked for; empty where that is not known (any more)."""

    leaves_seconds: float | None = None
    """From when on its holder releases at a boundary without being asked again: its page says so."""

    left_idle: bool = False
    """It was asked for because its holder was between iterations: who comes next fills a gap."""

    iterations: int = 0
    """Of the processes that have released."""

    gpu_seconds: float = 0.0
    """Of the processes that have released."""

    def busy_seconds(self, now_seconds: float) -> float:
        """Return the time inside iterations so far; processes that run side by side count once."""
        longest_seconds = self.gpu_seconds
        if self.holders and now_seconds > self.began_seconds:
            now_ns = int(now_seconds * NANOSECONDS)
            began_ns = int(self.began_seconds * NANOSECONDS)
            for session in self.holders:
                longest_seconds = max(longest_seconds, session.busy_seconds_since_grant(now_ns, began_ns))
        return longest_seconds

    def charge_seconds(self, now_seconds: float) -> float:
        """Return the service that the turn costs its hold: what its pages say, until somebody else wants the lane; from
        then on the time that it keeps others waiting, whatever its pages say."""
        if self.wanted_since_seconds is None:
            return self.busy_seconds(now_seconds)
        kept_seconds = self.busy_before_seconds + now_seconds - self.wanted_since_seconds
        if kept_seconds >= now_seconds - self.began_seconds:
            return kept_seconds  # wanted from the beginning, as most are: no page can say more than the turn's length
        return max(self.busy_seconds(now_seconds), kept_seconds)

    def note_wanted(self, now_seconds: float) -> None:
        """Somebody else wants the lane from now on."""
        if self.wanted_since_seconds is None:
            self.busy_before_seconds = self.busy_seconds(now_seconds)
            self.wanted_since_seconds = now_seconds

    def idle_since_seconds(self, now_seconds: float) -> float | None:
        """Return since when no process is inside an iteration; None while one is. A boundary is not in the future."""
        now_ns = int(now_seconds * NANOSECONDS)
        since_ns = int(self.began_seconds * NANOSECONDS)
        for session in self.holders:
            if session.page.inside:
                return None
            since_ns = max(since_ns, min(session.page.boundary_ns, now_ns))
        return since_ns / NANOSECONDS

    def waits_for(self, session: Session) -> bool:
        """Return whether a process that holds it may be waiting, inside an iteration, for one of its container that has not
        begun that iteration: ranks of a gang that train together count alike."""
        return any(
            holder.page.inside and holder.page.iterations >= session.page.iterations
            for holder in self.holders
        )

    def count_out(self, session: Session, iterations: int, gpu_seconds: float, now_seconds: float) -> None:
        """Take a process out of the turn, with what it did in it; a claim beyond the turn's length counts as its length."""
        self.holders.remove(session)
        self.iterations += iterations
        self.gpu_seconds = max(self.gpu_seconds, min(gpu_seconds, now_seconds - self.began_seconds))
