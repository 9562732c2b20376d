"""How a container follows an order, step by step; one for each GPU.

Level-triggered: :meth:`OrderFollower.step` looks at the order and at what the container's processes have answered, and does what comes next.
It is called whenever either changes, and now and then, so a step that could not be made yet is made later.

- **Pause**: every process is told to pause. Until all have answered they go on taking turns, because the workers of a gang stop at the same iteration, and
  one may have to catch up; who does not answer in time is held back all the same. Once there is no turn the tenant is parked in the lane table: its
  persistent bytes count, its ephemeral goes to others.
- **Offload**: pause; when all processes have answered, they are told to offload; when all have done so, the tenant leaves the lane table. A process
  that cannot, or refuses, leaves the container paused.
- **No order (any more)**: a container whose memory is on the host is admitted anew, and told to restore once it has a lane and memory covers it beside
  the turns that run. Then, or if the memory had stayed, its processes are told to resume and it takes turns again.

A container that is *held back* gets no turn (:attr:`Hold.may_run`), from the first of these steps to the last.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.api.orders import Order, PodOrder
from laneway.node_agent.clock import Clock
from laneway.node_agent.orders.standing import OrderWord
from laneway.node_agent.turns.giver import TurnGiver
from laneway.node_agent.turns.hold import Hold
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.notices import Notices
from laneway.node_agent.turns.session import Session

RETRY_SECONDS = 1.0
"""A process that could not restore is told again after so long: memory may have become free."""


class OrderFollower:
    """Leads the containers of one GPU through their orders. Call it from the loop's thread only."""

    def __init__(
        self, memory: LaneMemory, giver: TurnGiver, clock: Clock, timeout_seconds: float, notices: Notices
    ) -> None:
        self._memory = memory
        self._giver = giver
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._notices = notices

    def take(self, hold: Hold, order: PodOrder | None) -> None:
        """Take note of the order that counts for a container now; None: it is to run."""
        if order == hold.order:
            return
        if order is None or hold.order is None or order.order != hold.order.order:
            for session in hold.sessions:
                session.standing.refusal = ""
        hold.order = order
        self.step(hold)
        self._notices.changed()

    def step(self, hold: Hold) -> None:
        """Do what is next."""
        if self._giver.waits_for_survivors and any(session.remembered for session in hold.sessions):
            return  # one that has not come back may be inside an iteration
        if hold.order is not None:
            self._hold_back(hold)
        elif hold.held_back or any(session.standing.pause_asked for session in hold.sessions):
            self._let_go(hold)

    def follow(self, moved: Iterable[Hold]) -> None:
        """Follow a change of lanes, with the turns, and with those that waited for a lane to be restored into."""
        moved = tuple(moved)
        self._giver.follow(moved)
        for hold in moved:
            if hold.held_back and hold.order is None:
                self.step(hold)

    def look_after(self, holds: Iterable[Hold]) -> None:
        """Make steps that could not be made before, and tell of processes that do not answer."""
        now_seconds = self._clock.monotonic()
        for hold in holds:
            if hold.order is None and not hold.held_back:
                continue
            self.step(hold)
            for session in hold.connected:
                standing = session.standing
                late = (
                    standing.owes is not None
                    and now_seconds - standing.asked_seconds >= self._timeout_seconds
                )
                if late and not standing.lateness_told:
                    standing.lateness_told = True
                    text = f"process {session.pid} has not answered {standing.owes} in {self._timeout_seconds:g} s"
                    self._notices.noted(hold, "OrderNotFollowed", text)

    def came(self, hold: Hold, session: Session, *, was_offloaded: bool) -> None:
        """A process is connected, and it is known whether it keeps a turn.

        Args:
            hold: its container's.
            session: the process's.
            was_offloaded: an earlier session of the process left its memory on the host; it may have had to fetch it since.
        """
        if was_offloaded and not session.standing.offloaded:
            self._readmit(hold)
        self.step(hold)

    # What processes say

    def request(self, hold: Hold, session: Session) -> None:
        """A process wants a turn. One that has stopped at its boundary gets none, also while others of its container have not."""
        session.standing.wants_turn = session.standing.paused
        if not session.standing.paused:
            self._giver.request(hold, session)

    def paused(self, hold: Hold, session: Session) -> None:
        """A process has stopped at a boundary. Ignored where the pause is over: the answer may have crossed its end."""
        if session.standing.pause_asked:
            session.standing.paused = True
            self._went_on(hold)

    def offloaded(self, hold: Hold, session: Session, freed_bytes: int) -> None:
        """A process has moved its memory to the host."""
        standing = session.standing
        standing.offloaded, standing.offloaded_bytes, standing.refusal = True, freed_bytes, ""
        hold.held_back = True
        self._went_on(hold)

    def restored(self, hold: Hold, session: Session) -> None:
        """A process has its memory back, because it was told to, or because it had to (it is to end, say)."""
        standing = session.standing
        standing.offloaded = standing.offload_asked = standing.restore_asked = False
        standing.offloaded_bytes, standing.refusal = 0, ""
        self._readmit(hold)
        self._went_on(hold)

    def refused(self, hold: Hold, session: Session, word: str, message: str) -> None:
        """A process could not do what it was told."""
        standing = session.standing
        standing.refusal, standing.refused_seconds = message, self._clock.monotonic()
        if word == "restore":
            standing.restore_asked = False
        else:
            standing.offload_asked = False
        self._notices.noted(hold, "OrderRefused", f"process {session.pid} refused to {word}: {message}")
        self._went_on(hold)

    def _went_on(self, hold: Hold) -> None:
        self.step(hold)
        self._notices.changed()

    # The steps

    def _hold_back(self, hold: Hold) -> None:
        for session in hold.connected:
            if not session.standing.pause_asked:
                session.standing.pause_asked = True
                self._tell_to_pause(session)
        now_seconds = self._clock.monotonic()
        hold.held_back |= all(
            session.standing.paused or now_seconds - session.standing.asked_seconds >= self._timeout_seconds
            for session in hold.connected
        )
        if not hold.held_back:
            return
        self._giver.ask_back(hold)
        if hold in self._giver.turns:
            return
        if hold.in_table and not self._memory.is_parked(hold):
            self.follow(self._memory.park(hold))
        if hold.order is not None and hold.order.order == Order.OFFLOAD:
            self._offload(hold)

    def _tell_to_pause(self, session: Session) -> None:
        if "pause" in session.standing.can:
            self._tell(session, "pause")
        else:
            session.standing.paused = True  # it gets no turns, and that is all there is to it

    def _offload(self, hold: Hold) -> None:
        if (
            not hold.in_table
            or not hold.sessions
            or any(cannot_offload(session) for session in hold.sessions)
        ):
            return
        if not all(
            session.standing.paused and not session.standing.restore_asked for session in hold.sessions
        ):
            return
        for session in hold.sessions:
            if not session.standing.offload_asked and not session.standing.offloaded:
                session.standing.offload_asked = True
                self._tell(session, "offload")
        if all(session.standing.offloaded for session in hold.sessions):
            hold.offloaded = True
            self.follow(self._memory.leave(hold, keep_sizes=True))

    def _let_go(self, hold: Hold) -> None:
        if any(session.standing.away for session in hold.sessions):
            self._bring_back(hold)
            return
        for session in hold.connected:
            if session.standing.pause_asked and "pause" in session.standing.can:
                self._tell(session, "resume")
            session.standing.pause_asked = session.standing.paused = False
        hold.held_back = False
        self._readmit(hold)
        self.follow(self._memory.unpark(hold) if hold.in_table else ())
        for session in hold.connected:
            if session.standing.wants_turn:
                self.request(hold, session)

    def _bring_back(self, hold: Hold) -> None:
        self._readmit(hold)
        if hold.in_table:
            self._giver.follow(self._memory.unpark(hold))
        if self._memory.lane_of(hold) is None or not self._memory.has_room(hold, self._giver.turns):
            return
        for session in hold.connected:
            standing = session.standing
            too_soon = standing.refusal and self._clock.monotonic() < standing.refused_seconds + RETRY_SECONDS
            if standing.away and not standing.restore_asked and not too_soon:
                standing.restore_asked = True
                self._tell(session, "restore")

    def _readmit(self, hold: Hold) -> None:
        if hold.offloaded:
            hold.offloaded = False
            if hold.sessions:
                self._giver.follow(self._memory.enter(hold))

    def _tell(self, session: Session, word: OrderWord) -> None:
        session.standing.note_asked(self._clock.monotonic())
        session.line.order(word)


def cannot_offload(session: Session) -> str:
    """Return why a process's memory cannot be moved to the host; empty where it can."""
    if session.standing.offloaded:
        return ""
    if not session.connected:
        return f"process {session.pid} is not connected"
    if "offload" not in session.standing.can:
        return f"process {session.pid} cannot move its memory"
    if session.standing.refusal:
        return f"process {session.pid} refused: {session.standing.refusal}"
    return ""
