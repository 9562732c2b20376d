"""Arm the next holder of a lane, so that the process that leaves the lane wakes it directly.

While a holder's successor is known, the successor is *armed*: its page has the number of its coming turn and
the wake that announces it, and the holder's page has the same wake. The holder signals the wake just before it
sends its release. The successor begins at once and notes the number on its page. The agent learns of it
from the release, and does the accounting then. If no signal comes, the agent grants the turn as usual.

A wake is a pipe of one pair of processes, which only these two get. So a process can wake only
successors of its own lane, and a signal counts only while the agent has armed this pair. The agent stays the
authority: what a page claims begins no turn and ends none. A successor that has begun although its
predecessor does not release is told to stop, and neither of the two containers is armed again, because
either may have lied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.session import NANOSECONDS, Session
from laneway.node_agent.turns.turn import Turn

MAX_WAKES = 32
"""Wakes that a process takes part in: each costs it a descriptor. Pairs beyond that are handed over by the
agent."""


@dataclass(slots=True)
class ArmedTurn:
    """A turn that is prepared for the successor of a holder."""

    holder: Session
    session: Session
    lease: Lease
    number: int

    @property
    def is_taken(self) -> bool:
        """Return whether the successor says that it has begun."""
        return self.session.page.taken == self.number

    def disarm(self) -> None:
        """Withdraw it. The successor is first: it looks at its page again after it has noted the number."""
        self.session.page.write_armed(0, 0)
        self.holder.page.write_successor(0)


class ArmedHandOffs:
    """The armed successors of one GPU, by turn."""

    def __init__(self, memory: LaneMemory) -> None:
        self._memory = memory
        self._armed: dict[Turn, ArmedTurn] = {}
        self._wakes: dict[tuple[Session, Session], int] = {}
        """By holder and successor."""
        self._pairs: dict[Session, list[tuple[Session, Session]]] = {}
        """The pairs of the wakes that a process takes part in."""
        self._numbers = count(1)

    def of(self, turn: Turn) -> ArmedTurn | None:
        """Return what is armed behind a turn."""
        return self._armed.get(turn)

    def awaited_by(self, session: Session) -> Turn | None:
        """Return the turn behind which a process is armed."""
        return next((turn for turn, armed in self._armed.items() if armed.session is session), None)

    def taken_turns(self) -> Iterator[Turn]:
        """Yield the turns whose successor says that it has begun."""
        yield from [turn for turn, armed in self._armed.items() if armed.is_taken]

    def taken_leases(self) -> Iterator[Lease]:
        """Yield the leases of these successors."""
        yield from [armed.lease for armed in self._armed.values() if armed.is_taken]

    def handed_over_seconds(self, turn: Turn, now_seconds: float) -> float:
        """Return when a turn that is being released passed to its successor; now, if that has not begun.

        The one that leaves gains by an early time and the successor by a late one, so the later of their
        claims counts. A false claim gains no more than the time in which the release was on its way, which
        is charged to the one that leaves where nobody claims anything.
        """
        armed = self._armed.get(turn)
        if armed is None or not armed.is_taken:
            return now_seconds
        claimed_ns = max(armed.holder.page.boundary_ns, armed.session.page.taken_ns)
        return min(now_seconds, max(turn.began_seconds, claimed_ns / NANOSECONDS))

    def arm(self, turn: Turn) -> None:
        """Arm the process of the turn's next holder in place of an earlier one, if the two are a pair.

        Several processes of a container begin and end a turn together, which only the agent arranges.
        """
        known, lease = self._armed.get(turn), self._armable(turn)
        successor = None if lease is None else lease.sessions[0]
        if known is not None:
            if successor is known.session:
                return
            self.pop(turn)
        if lease is None or successor is None:
            return
        holder = turn.holders[0]
        wake = self._wake(holder, successor)
        if not wake:
            return
        number = turn.number + 1
        self._armed[turn] = ArmedTurn(holder, successor, lease, number)
        successor.page.write_armed(number, wake)
        holder.page.write_successor(wake)

    def pop(self, turn: Turn) -> ArmedTurn | None:
        """Disarm the successor of a turn and return what was armed."""
        armed = self._armed.pop(turn, None)
        if armed is not None:
            armed.disarm()
        return armed

    def forget(self, session: Session) -> None:
        """Close the wakes of a process that cannot be reached any more."""
        for pair in self._pairs.pop(session, ()):
            wake = self._wakes.pop(pair)
            other = pair[0] if pair[1] is session else pair[1]
            self._pairs[other].remove(pair)
            other.channel.forget_wake(wake)

    def _armable(self, turn: Turn) -> Lease | None:
        """Return the lease of the turn's next holder, if it and the turn's holder are one process each, which can
        hand over."""
        holder = turn.lease
        if not turn.next_holder or len(turn.holders) != 1 or len(holder.sessions) != 1:
            return None
        lease = self._memory.lease(turn.next_holder)
        if len(lease.sessions) != 1 or not lease.may_run or not (holder.may_be_armed and lease.may_be_armed):
            return None
        successor = lease.sessions[0]
        return lease if successor.requested and successor.hands_over and turn.holders[0].hands_over else None

    def _wake(self, holder: Session, successor: Session) -> int:
        """Return the wake of a pair, shared with both at first use; 0 if one of them has too many."""
        pair = holder, successor
        wake = self._wakes.get(pair)
        if wake is not None:
            return wake
        pairs = [self._pairs.setdefault(session, []) for session in pair]
        if max(map(len, pairs)) >= MAX_WAKES:
            return 0
        wake = self._wakes[pair] = next(self._numbers)
        for each in pairs:
            each.append(pair)
        holder.channel.share_wake(wake, successor.channel)
        return wake
