"""A turn: the permission of one container to run iterations in one lane, from grant to release."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.session import NANOSECONDS, Session


class TurnEnd(StrEnum):
    """How a turn ended."""

    RELEASED = "released"
    REVOKED = "revoked"
    DIED = "died"


@dataclass(eq=False, slots=True)
class Turn:
    """A turn in progress."""

    number: int
    lane: int
    """The lane that it was granted in. It occupies that lane until it ends, even if its tenant moves."""

    lease: Lease
    began_seconds: float
    """CLOCK_MONOTONIC, like all times here."""

    waited_seconds: float = 0.0
    wait_ratio: float = 1.0
    """How long its lease may wait for each second of a turn, by the weights of those that wanted the lane when it began."""

    mean_weight: float = 0.0
    """Of all leases that wanted the lane when it began, its own included; 0: no other did."""

    holders: list[Session] = field(default_factory=list)
    """The processes that have not released yet."""

    yield_requested_seconds: float | None = None
    contended_since_seconds: float | None = None
    """Since when another lease wants the lane."""

    busy_before_seconds: float = 0.0
    """Time inside iterations before that."""

    check_seconds: float | None = None
    """When it is checked next whether another lease should run; None: it is not."""

    quantum_ends_seconds: float = 0.0
    next_holder: str = ""
    """The lease that the policy prefers next, as of the request to yield; empty if unknown."""

    taken_since_seconds: float | None = None
    """Since when its successor was seen to have begun, although it has not released; None: not seen."""

    yield_at_seconds: float | None = None
    """From when on the holder releases at a boundary without another request, because its page says so."""

    yielded_idle: bool = False
    """It was requested because its holder was between iterations, so the next holder fills a gap."""

    leaves_gap: bool = False
    """The next holder fills the gap although the policy would not prefer it yet."""

    iterations: int = 0
    """Iterations of the processes that have released."""

    gpu_seconds: float = 0.0
    """GPU time of the processes that have released."""

    @property
    def is_inside(self) -> bool:
        """Return whether one of its processes is inside an iteration."""
        for session in self.holders:  # noqa: SIM110 - asked at each check: any() would make a generator
            if session.page.inside:
                return True
        return False

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
        """Return the service that the turn costs its lease.

        Until another lease wants the lane, this is the time inside iterations, as the pages report it. From
        then on it is the time that the turn keeps others waiting, whatever the pages report.
        """
        if self.contended_since_seconds is None:
            return self.busy_seconds(now_seconds)
        kept_seconds = self.busy_before_seconds + now_seconds - self.contended_since_seconds
        if kept_seconds >= now_seconds - self.began_seconds:
            return kept_seconds  # contended from the beginning, as most turns are: no page can report more than the turn's length
        return max(self.busy_seconds(now_seconds), kept_seconds)

    def mark_contended(self, now_seconds: float) -> None:
        """Record that another lease wants the lane from now on."""
        if self.contended_since_seconds is None:
            self.busy_before_seconds = self.busy_seconds(now_seconds)
            self.contended_since_seconds = now_seconds

    def idle_since_seconds(self, now_seconds: float) -> float | None:
        """Return since when no process is inside an iteration; None while one is. A boundary is never in
        the future."""
        now_ns = int(now_seconds * NANOSECONDS)
        since_ns = int(self.began_seconds * NANOSECONDS)
        for session in self.holders:
            if session.page.inside:
                return None
            since_ns = max(since_ns, min(session.page.boundary_ns, now_ns))
        return since_ns / NANOSECONDS

    def waits_for(self, session: Session) -> bool:
        """Return whether a holder may be inside an iteration, waiting for a process of its container that
        has not started it. Ranks of a gang that train together count iterations alike."""
        return any(
            holder.has_iterations and holder.page.inside and holder.page.iterations >= session.page.iterations
            for holder in self.holders
        )

    def remove_process(
        self, session: Session, iterations: int, gpu_seconds: float, now_seconds: float
    ) -> None:
        """Remove a process from the turn and add what it did. A claim beyond the turn's length counts as
        its length."""
        self.holders.remove(session)
        self.iterations += iterations
        self.gpu_seconds = max(self.gpu_seconds, min(gpu_seconds, now_seconds - self.began_seconds))
