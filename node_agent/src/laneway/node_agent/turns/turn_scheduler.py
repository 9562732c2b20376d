"""Grant and revoke the turns of one GPU.

A session requests a turn. If its lane is free, the turn is granted at once. Otherwise the holder of the
lane's turn is checked until the policy prefers another lease: when its quantum is over, or when it is between
iterations for so long that the lane is idle. Then the holder is asked to yield, releases at its next
boundary, and the preferred lease is granted the turn. A holder that does not release in time loses its turn.
So does one whose connection breaks. The lane then waits until its memory is free (:class:`PendingReleases`).

What decides:

- :class:`RunningTurns` knows the turns and which lanes they occupy: a lane has at most one.
- :class:`WaitQueue` knows who waits, and whom the policy prefers.
- :class:`HolderMonitor` finds out when a holder should yield.
- :class:`NextHolders` sets who follows a turn, and arms that process (:class:`ArmedHandOffs`).
- :class:`TurnMemory` grants a turn only if memory covers it beside the running turns and the pending releases.

A process that leaves usually wakes the next holder itself, and its release only records that. Otherwise the
hand-off passes here between one process's release and another's grant, so this path is short. The ended turn is
charged only after the next one is granted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from laneway.node_agent.clock import Clock
from laneway.node_agent.turns.charging import remove_process
from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.pending_releases import MemoryReading
from laneway.node_agent.turns.session import Session
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.timers import Timers
from laneway.node_agent.turns.turn import Turn, TurnEnd
from laneway.node_agent.turns.turn_granter import TurnGranter
from laneway.node_agent.turns.turn_log import TurnLog


class TurnScheduler:
    """Schedules the turns of all lanes of one GPU."""

    def __init__(
        self,
        memory: LaneMemory,
        settings: TurnSettings,
        clock: Clock,
        timers: Timers,
        log: TurnLog,
        recorder: EventRecorder,
    ) -> None:
        self._granter = TurnGranter(memory, settings, clock, timers, log, recorder)
        self._running = self._granter.running
        self._holders = self._granter.holders
        self._next_holders = self._granter.next_holders
        self.memory = self._granter.memory
        """Whether memory allows turns."""
        self._lanes = memory
        self._settings = settings
        self._clock = clock
        self._recorder = recorder

    @property
    def awaiting_recovery(self) -> bool:
        """Whether it is not known yet which processes held turns before the agent restarted. No turn is granted
        meanwhile."""
        return self._granter.awaiting_recovery

    @awaiting_recovery.setter
    def awaiting_recovery(self, awaiting: bool) -> None:
        self._granter.awaiting_recovery = awaiting

    def call_at_overlap(self, turns_overlap: Callable[[], None]) -> None:
        """Call back whenever a turn begins beside another one."""
        self._granter.turns_overlap = turns_overlap

    @property
    def turns(self) -> Mapping[Lease, Turn]:
        """Return the running turns by lease."""
        return self._running.by_lease

    # What processes do

    def request(self, lease: Lease, session: Session) -> None:
        """Handle a process's request for a turn. A process that requests one is outside an iteration."""
        self.process_left(lease, session)
        turn = self._running.by_lease.get(lease)
        if turn is not None and session in turn.holders:
            session.channel.grant(turn.number)
            return
        session.requested = True
        if not session.has_run:
            self._start_counting(lease, session)
        if turn is not None:
            if turn.yield_requested_seconds is None:
                self._granter.grant(turn, session)
            elif turn.waits_for(session):
                self._granter.grant(turn, session)
                session.page.write_yield()
            return
        now_seconds = self._clock.monotonic()
        lane = self._lanes.lane_of(lease)
        if lease.view is None:
            self._granter.enqueue(lease, lane, now_seconds)
        if lane is not None:
            self._granter.advance(lane, now_seconds)

    def _start_counting(self, lease: Lease, session: Session) -> None:
        """Count a process's memory from its first turn on, although it is not measured yet."""
        session.has_run = True
        if lease.in_table:
            self.lanes_changed(self._lanes.measure(lease))

    def release(
        self,
        lease: Lease,
        session: Session,
        number: int,
        iterations: int,
        gpu_seconds: float,
        again: bool = False,
    ) -> None:
        """Release a process's turn; with ``again`` the process also requests the next one.

        A release of a turn that the process does not hold may have crossed a revocation: then it says only
        that the process is outside.
        """
        turn = self._running.by_lease.get(lease)
        if turn is None or turn.number != number or session not in turn.holders:
            self.process_left(lease, session)
            if again:
                self.request(lease, session)
            return
        now_seconds = self._granter.armed.handed_over_seconds(turn, self._clock.monotonic())
        if turn.next_holder and len(turn.holders) == 1:
            self._granter.hand_off(turn, now_seconds)
        if turn.yield_at_seconds is not None and turn.yield_at_seconds <= now_seconds:
            session.channel.credit_release()
        remove_process(turn, session, now_seconds, iterations, gpu_seconds)
        if self.memory.pending:
            self.process_left(lease, session)
        if not turn.holders:
            session.requested = again
            self._granter.end(turn, TurnEnd.RELEASED, now_seconds)
        elif again:
            self.request(lease, session)

    def leave(self, lease: Lease, session: Session, *, goodbye: bool) -> None:
        """Handle a process that cannot be reached any more: its turn and its request end."""
        now_seconds = self._clock.monotonic()
        session.requested = False
        awaited = self._granter.armed.awaited_by(session)
        if awaited is not None:
            self._next_holders.withdraw(awaited)
        self._granter.armed.forget(session)
        turn = self._running.by_lease.get(lease)
        if turn is not None and session in turn.holders:
            remove_process(turn, session, now_seconds)
            cause = "lost its connection to the node agent"
            self.memory.release_later(turn, session, cause, now_seconds)
            if not turn.holders:
                self._granter.end(turn, TurnEnd.RELEASED if goodbye else TurnEnd.DIED, now_seconds)
        if goodbye:
            self.process_left(lease, session)
        if lease.view is not None and not lease.wants_turn:
            self._granter.queue.leave(lease)
            lease.away_since_seconds = now_seconds

    def process_left(self, lease: Lease, session: Session, *, ended: bool = False) -> None:
        """Record that a process is outside an iteration, or has ended."""
        if self.memory.pending and self.memory.process_left(
            lease, session, self._clock.monotonic(), ended=ended
        ):
            self._release_finished()

    # Recovery

    def adopt(self, lease: Lease, session: Session) -> bool:
        """Let a process keep the turn that an earlier agent process granted. Return whether it may.

        It may only during recovery, and if its lane is free. If another lease occupies the lane, one of the
        two makes a false claim. The lane then waits for both.
        """
        lane = self._lanes.lane_of(lease)
        if not self.awaiting_recovery or lane is None:
            return False
        now_seconds = self._clock.monotonic()
        session.has_run = True
        turn = self._running.by_lease.get(lease)
        if turn is not None:
            self._granter.grant(turn, session)
            return True
        memory = self.memory
        held = memory.pending.blocking(lane, self._lanes.lanes_by_key, lease)
        if self._running.occupying(lane) or held or not memory.fits(lease):
            claimed = Turn(self._running.next_number(lane), lane, lease, now_seconds)
            memory.release_later(claimed, session, "claims a turn that is not its own", now_seconds)
            return False
        self._granter.begin(lease, lane, now_seconds, [session])
        return True

    def finish_recovery(self) -> None:
        """End recovery: all holders are known, so turns may be granted."""
        self.awaiting_recovery = False
        self.lanes_changed(())

    # Now and then

    def request_yield(self, lease: Lease) -> None:
        """Ask for the lease's turn back, if it has one, because of an order to pause."""
        turn = self._running.by_lease.get(lease)
        if turn is not None:
            self._holders.request_yield(turn)

    def revoke_stalled(self) -> None:
        """Revoke turns that were not released in time, report overdue releases, and check lanes with waiting
        leases."""
        now_seconds = self._clock.monotonic()
        for turn in tuple(self._running.by_lease.values()):
            asked_seconds = turn.yield_requested_seconds
            if asked_seconds is None:
                continue
            limit_seconds = self.memory.revocation_limit_seconds(turn.lease)
            if now_seconds - asked_seconds >= limit_seconds:
                self._revoke(turn, limit_seconds, now_seconds)
            else:
                self._holders.repeat_request(turn)
        for turn in self._next_holders.unreleased(now_seconds, self._settings.release_seconds):
            self._next_holders.withdraw(turn)
            turn.next_holder = ""
        self.memory.report_overdue(now_seconds)
        self._granter.advance_all(now_seconds)

    def _revoke(self, turn: Turn, limit_seconds: float, now_seconds: float) -> None:
        text = f"did not yield within {limit_seconds:g} s"
        turn.lease.last_event = f"lost turn {turn.number} of lane {turn.lane}: {text}"
        for session in tuple(turn.holders):
            remove_process(turn, session, now_seconds)
            self.memory.release_later(turn, session, text, now_seconds)
            session.channel.revoke(turn.number, text)
        self._granter.end(turn, TurnEnd.REVOKED, now_seconds, "stalled")
        self._recorder.record_event(turn.lease, "TurnRevoked", turn.lease.last_event)

    def observe_memory(self, reading: MemoryReading | None) -> None:
        """Record what the driver shows of the GPU's memory; None: it does not list the memory of processes."""
        if self.memory.pending.observe(reading, self._clock.monotonic()):
            self._release_finished()

    def _release_finished(self) -> None:
        """Grant lanes that a pending release occupied."""
        self.memory.refresh_stale_turns()
        self._granter.advance_all(self._clock.monotonic())
        self._recorder.changed()

    def lanes_changed(self, moved: Iterable[Lease]) -> None:
        """Handle a change of lanes: leases that moved restart their service, and turns that no longer fit
        are asked to yield."""
        now_seconds = self._clock.monotonic()
        running = self._running
        running.stale = True
        self._granter.queue.rebuild()
        self._next_holders.disarm_outdated()
        for lease in moved:
            lease.service_seconds = 0.0
            lease.newcomer = True
            if lease.view is not None:
                self._granter.enqueue(lease, self._lanes.lane_of(lease), now_seconds)
        for turn in running.by_lease.values():
            if not running.is_current(turn):
                self._holders.request_yield(turn)
        self.memory.update_cached(now_seconds)
        self.memory.refresh_stale_turns()
        if running.stale:
            self._next_holders.disarm_all()
        self._granter.advance_all(now_seconds)
