"""Carries out a container's order step by step; one executor per GPU.

Level-triggered: :meth:`OrderExecutor.step` compares the order with the answers of the container's processes
and does the next step. It is called whenever either changes, and now and then, so a step that was not
possible yet is done later.

- **Pause**: every process is told to pause. Until all have answered they keep taking turns: the workers of a
  gang stop at the same iteration, and one may have to catch up. A container that does not answer in time is
  blocked anyway. Once it has no turn, it is paused in the lane table: its persistent bytes count, its
  ephemeral bytes go to others.
- **Offload**: pause first. When all processes have answered, they are told to offload. When all have
  offloaded, the tenant leaves the lane table. If a process cannot offload, or refuses, the container stays
  paused.
- **No order (any more)**: a container whose memory is on the host is admitted again. It is told to restore
  once it has a lane and memory covers it beside the running turns. Then, or if its memory had stayed on the
  GPU, its processes are told to resume, and it takes turns again.

A *blocked* container gets no turn (:attr:`Lease.may_run`), from the first of these steps to the last.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.api.orders import Order, PodOrder
from laneway.node_agent.clock import Clock
from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.move_costs import MoveCosts
from laneway.node_agent.turns.order_state import OrderCommand
from laneway.node_agent.turns.session import Session
from laneway.node_agent.turns.turn_scheduler import TurnScheduler

RETRY_SECONDS = 1.0
"""When a process that could not restore is asked again: memory may have become free."""


class OrderExecutor:
    """Carries out the orders of one GPU's containers. Call it from the loop's thread only."""

    def __init__(
        self,
        memory: LaneMemory,
        scheduler: TurnScheduler,
        clock: Clock,
        recorder: EventRecorder,
    ) -> None:
        self._memory = memory
        self._scheduler = scheduler
        self._clock = clock
        self._recorder = recorder
        self.move_costs = MoveCosts()

    def set_order(self, lease: Lease, order: PodOrder | None) -> None:
        """Set the order that applies to a container now; None: it may run."""
        if order == lease.order:
            return
        if order is None or lease.order is None or order.order != lease.order.order:
            for session in lease.sessions:
                session.order_state.refusal = ""
        lease.order = order
        self.step(lease)
        self._recorder.changed()

    def step(self, lease: Lease) -> None:
        """Do the next step."""
        if self._scheduler.awaiting_recovery and any(
            session.awaiting_reconnect for session in lease.sessions
        ):
            return  # a process that has not reconnected may be inside an iteration
        if lease.order is not None:
            self._pause(lease)
        elif lease.blocked or any(session.order_state.pause_requested for session in lease.sessions):
            self._resume(lease)

    def lanes_changed(self, moved: Iterable[Lease]) -> None:
        """Pass a change of lanes to the scheduler and to leases that waited for a lane to restore into."""
        moved = tuple(moved)
        self._scheduler.lanes_changed(moved)
        for lease in moved:
            if lease.blocked and lease.order is None:
                self.step(lease)

    def retry(self, leases: Iterable[Lease]) -> None:
        """Retry steps that were not possible before, and report processes that do not answer."""
        now_seconds = self._clock.monotonic()
        for lease in leases:
            if lease.order is None and not lease.blocked:
                continue
            self.step(lease)
            for session in lease.connected:
                order_state = session.order_state
                limit_seconds = self._scheduler.memory.release_limit_seconds(lease)
                late = (
                    order_state.unanswered is not None
                    and now_seconds - order_state.sent_seconds >= limit_seconds
                )
                if late and not order_state.timeout_reported:
                    order_state.timeout_reported = True
                    text = f"process {session.pid} has not answered {order_state.unanswered} in {limit_seconds:g} s"
                    self._recorder.record_event(lease, "OrderNotFollowed", text)

    def process_connected(self, lease: Lease, session: Session, *, was_offloaded: bool) -> None:
        """Handle a connected process, once it is known whether it keeps a turn.

        Args:
            lease: its container's lease.
            session: its session.
            was_offloaded: an earlier session of the process left its memory on the host; it may have restored
                it since.
        """
        if was_offloaded and not session.order_state.offloaded:
            self._admit(lease)
        self.step(lease)

    # Packets from processes

    def request(self, lease: Lease, session: Session) -> None:
        """Handle a request for a turn. A paused process gets none, even while others of its container
        still run."""
        session.order_state.wants_turn = session.order_state.paused
        if not session.order_state.paused:
            self._scheduler.request(lease, session)

    def paused(self, lease: Lease, session: Session) -> None:
        """Record that a process has paused. Ignored if the pause is over: the answer may have crossed its
        end."""
        if session.order_state.pause_requested:
            session.order_state.paused = True
            self._advance(lease)

    def offloaded(self, lease: Lease, session: Session, freed_bytes: int) -> None:
        """Record that a process has moved its memory to the host."""
        order_state = session.order_state
        if order_state.unanswered == "offload":
            moved_bytes = min(freed_bytes, lease.quota_bytes)
            self.move_costs.note_out(moved_bytes, self._clock.monotonic() - order_state.sent_seconds)
        order_state.offloaded, order_state.offloaded_bytes, order_state.refusal = True, freed_bytes, ""
        lease.blocked = True
        self._advance(lease)

    def restored(self, lease: Lease, session: Session) -> None:
        """Record that a process has its memory back, on request or on its own (because it is about to end,
        for example)."""
        order_state = session.order_state
        if order_state.unanswered == "restore":
            moved_bytes = min(order_state.offloaded_bytes, lease.quota_bytes)
            self.move_costs.note_back(moved_bytes, self._clock.monotonic() - order_state.sent_seconds)
        order_state.offloaded = order_state.offload_requested = order_state.restore_requested = False
        order_state.offloaded_bytes, order_state.refusal = 0, ""
        self._admit(lease)
        self._advance(lease)

    def refused(self, lease: Lease, session: Session, command: str, message: str) -> None:
        """Record that a process could not follow its order."""
        order_state = session.order_state
        order_state.refusal, order_state.refused_seconds = message, self._clock.monotonic()
        if command == "restore":
            order_state.restore_requested = False
        else:
            order_state.offload_requested = False
        self._recorder.record_event(
            lease, "OrderRefused", f"process {session.pid} refused to {command}: {message}"
        )
        self._advance(lease)

    def _advance(self, lease: Lease) -> None:
        self.step(lease)
        self._recorder.changed()

    # Steps

    def _pause(self, lease: Lease) -> None:
        for session in lease.connected:
            if not session.order_state.pause_requested:
                session.order_state.pause_requested = True
                self._send_pause(session)
        now_seconds = self._clock.monotonic()
        limit_seconds = self._scheduler.memory.release_limit_seconds(lease)
        lease.blocked |= all(
            session.order_state.paused or now_seconds - session.order_state.sent_seconds >= limit_seconds
            for session in lease.connected
        )
        if not lease.blocked:
            return
        self._scheduler.request_yield(lease)
        if lease in self._scheduler.turns:
            return
        if lease.in_table and not self._memory.is_paused(lease):
            self.lanes_changed(self._memory.pause(lease))
        if lease.order is not None and lease.order.order == Order.OFFLOAD:
            self._offload(lease)

    def _send_pause(self, session: Session) -> None:
        if "pause" in session.order_state.capabilities:
            self._send(session, "pause")
        else:
            session.order_state.paused = True  # getting no turns is all it takes to pause it

    def _offload(self, lease: Lease) -> None:
        if (
            not lease.in_table
            or not lease.sessions
            or any(cannot_offload(session) for session in lease.sessions)
        ):
            return
        if not all(
            session.order_state.paused and not session.order_state.restore_requested
            for session in lease.sessions
        ):
            return
        for session in lease.sessions:
            if not session.order_state.offload_requested and not session.order_state.offloaded:
                session.order_state.offload_requested = True
                self._send(session, "offload")
        if all(session.order_state.offloaded for session in lease.sessions):
            lease.offloaded = True
            self.lanes_changed(self._memory.leave(lease, keep_sizes=True))

    def _resume(self, lease: Lease) -> None:
        if any(session.order_state.off_gpu for session in lease.sessions):
            self._restore(lease)
            return
        for session in lease.connected:
            if session.order_state.pause_requested and "pause" in session.order_state.capabilities:
                self._send(session, "resume")
            session.order_state.pause_requested = session.order_state.paused = False
        lease.blocked = False
        self._admit(lease)
        self.lanes_changed(self._memory.resume(lease) if lease.in_table else ())
        for session in lease.connected:
            if session.order_state.wants_turn:
                self.request(lease, session)

    def _restore(self, lease: Lease) -> None:
        self._admit(lease)
        if lease.in_table:
            self._scheduler.lanes_changed(self._memory.resume(lease))
        if self._memory.lane_of(lease) is None or not self._scheduler.memory.fits(lease):
            return
        for session in lease.connected:
            order_state = session.order_state
            too_soon = (
                order_state.refusal and self._clock.monotonic() < order_state.refused_seconds + RETRY_SECONDS
            )
            if order_state.off_gpu and not order_state.restore_requested and not too_soon:
                order_state.restore_requested = True
                self._send(session, "restore")

    def _admit(self, lease: Lease) -> None:
        if lease.offloaded:
            lease.offloaded = False
            if lease.sessions:
                self._scheduler.lanes_changed(self._memory.enter(lease))

    def _send(self, session: Session, command: OrderCommand) -> None:
        session.order_state.mark_sent(self._clock.monotonic())
        session.channel.order(command)


def cannot_offload(session: Session) -> str:
    """Return why a process's memory cannot be moved to the host; empty if it can."""
    if session.order_state.offloaded:
        return ""
    if not session.connected:
        return f"process {session.pid} is not connected"
    if "offload" not in session.order_state.capabilities:
        return f"process {session.pid} cannot move its memory"
    if session.order_state.refusal:
        return f"process {session.pid} refused: {session.order_state.refusal}"
    return ""
