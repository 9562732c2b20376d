"""Grant and revoke the turns of one GPU.

A session requests a turn. If its lane is free, the turn is granted at once. Otherwise the holder of the
lane's turn is checked until the policy prefers another lease: when its quantum is over, or when it is between
iterations for so long that the lane is idle. Then the holder is asked to yield, releases at its next
boundary, and the preferred lease is granted the turn. A holder that does not release in time loses its turn.
So does one whose connection breaks. The lane then waits until its memory is free (:class:`PendingReleases`).

Invariants:

- A lane has at most one turn, and none of another lease while a release is pending there. A turn occupies the
  lane that it was granted in and the present lane of its tenant.
- A turn is granted only if memory covers it beside the running turns and the pending releases
  (:meth:`LaneMemory.fits`).

A process that leaves usually wakes the next holder itself (:class:`ArmedHandOffs`), and its release only
records that. Otherwise the hand-off passes here between one process's release and another's grant, so this
path is short. :class:`WaitQueue` knows who waits, and ``Turn.next_holder`` was chosen when the holder was
asked to yield. The ended turn is charged only after the next one is granted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from laneway.lanes.turns import SessionView
from laneway.node_agent.clock import Clock
from laneway.node_agent.turns.armed_hand_off import ArmedHandOffs
from laneway.node_agent.turns.cached_memory import CachedMemory
from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.holder_monitor import HolderMonitor
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.pending_releases import MemoryReading, PendingRelease, PendingReleases
from laneway.node_agent.turns.release_limit import release_limit_seconds, spanning_limit_seconds
from laneway.node_agent.turns.service import service_on_entry
from laneway.node_agent.turns.session import NANOSECONDS, Session
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.timers import Timers
from laneway.node_agent.turns.turn import Turn, TurnEnd
from laneway.node_agent.turns.turn_log import TurnLog
from laneway.node_agent.turns.wait_queue import WaitQueue


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
        self.awaiting_recovery = False
        """True until it is known which processes held turns before the agent restarted. No turn is granted
        meanwhile."""
        self.turns_overlap: Callable[[], None] = lambda: None
        """Called when a turn begins beside another one."""
        self._memory = memory
        self._settings = settings
        self._clock = clock
        self._log = log
        self._recorder = recorder
        self._queue = WaitQueue(memory)
        self._armed = ArmedHandOffs(memory)
        self._cached = CachedMemory(memory)
        self._holders = HolderMonitor(self._queue, settings, clock, timers, self._set_next_holder)
        self._pending = PendingReleases(memory.table.rules)
        self._turns: dict[Lease, Turn] = {}
        self._turn_in: dict[int, Turn] = {}
        """The same turns, by the lane in which each was granted."""
        self._numbers: dict[int, int] = {}
        self._idle_lanes: set[int] = set()
        self._has_stale_turns = False
        """Some turn belongs to an earlier lane table or a release is pending: it may occupy two lanes, and
        memory has to be counted."""

    @property
    def turns(self) -> Mapping[Lease, Turn]:
        """Return the running turns by lease."""
        return self._turns

    def request(self, lease: Lease, session: Session) -> None:
        """Handle a process's request for a turn. A process that requests one is outside an iteration."""
        self.process_left(lease, session)
        turn = self._turns.get(lease)
        if turn is not None and session in turn.holders:
            session.channel.grant(turn.number)
            return
        session.requested = True
        if not session.has_run:
            self._start_counting(lease, session)
        if turn is not None:
            if turn.yield_requested_seconds is None:
                self._grant(turn, session)
            elif turn.waits_for(session):
                self._grant(turn, session)
                session.page.write_yield()
            return
        now_seconds = self._clock.monotonic()
        if lease.view is None:
            self._enqueue(lease, now_seconds)
        lane = self._memory.lane_of(lease)
        if lane is not None:
            self._advance(lane, now_seconds)

    def _start_counting(self, lease: Lease, session: Session) -> None:
        """Count a process's memory from its first turn on, although it is not measured yet."""
        session.has_run = True
        if lease.in_table:
            self.lanes_changed(self._memory.measure(lease))

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
        turn = self._turns.get(lease)
        if turn is None or turn.number != number or session not in turn.holders:
            self.process_left(lease, session)
            if again:
                self.request(lease, session)
            return
        now_seconds = self._armed.handed_over_seconds(turn, self._clock.monotonic())
        if turn.next_holder and len(turn.holders) == 1:
            self._hand_off(turn, now_seconds)
        if turn.yield_at_seconds is not None and turn.yield_at_seconds <= now_seconds:
            session.channel.credit_release()
        self._remove_process(turn, session, now_seconds, iterations, gpu_seconds)
        if self._pending:
            self.process_left(lease, session)
        if not turn.holders:
            session.requested = again
            self._end(turn, TurnEnd.RELEASED, now_seconds)
        elif again:
            self.request(lease, session)

    def leave(self, lease: Lease, session: Session, *, goodbye: bool) -> None:
        """Handle a process that cannot be reached any more: its turn and its request end."""
        now_seconds = self._clock.monotonic()
        session.requested = False
        awaited = self._armed.awaited_by(session)
        if awaited is not None:
            self._withdraw(awaited, now_seconds)
        self._armed.forget(session)
        turn = self._turns.get(lease)
        if turn is not None and session in turn.holders:
            self._remove_process(turn, session, now_seconds)
            self._release_later(turn, session, "lost its connection to the node agent", now_seconds)
            if not turn.holders:
                self._end(turn, TurnEnd.RELEASED if goodbye else TurnEnd.DIED, now_seconds)
        if goodbye:
            self.process_left(lease, session)
        if lease.view is not None and not lease.wants_turn:
            self._queue.leave(lease)
            lease.away_since_seconds = now_seconds

    def adopt(self, lease: Lease, session: Session) -> bool:
        """Let a process keep the turn that an earlier agent process granted. Return whether it may.

        It may only during recovery, and if its lane is free. If another lease occupies the lane, one of the
        two makes a false claim. The lane then waits for both.
        """
        lane = self._memory.lane_of(lease)
        if not self.awaiting_recovery or lane is None:
            return False
        now_seconds = self._clock.monotonic()
        session.has_run = True
        turn = self._turns.get(lease)
        if turn is not None:
            self._grant(turn, session)
            return True
        held = self._pending.blocking(lane, self._memory.lanes_by_key, lease)
        if self._occupying_turns(lane) or held or not self.fits(lease):
            number = self._numbers[lane] = self._numbers.get(lane, 0) + 1
            claimed = Turn(number, lane, lease, now_seconds)
            self._release_later(claimed, session, "claims a turn that is not its own", now_seconds)
            return False
        self._begin(lease, lane, now_seconds, [session])
        return True

    def finish_recovery(self) -> None:
        """End recovery: all holders are known, so turns may be granted."""
        self.awaiting_recovery = False
        self.lanes_changed(())

    def revoke_stalled(self) -> None:
        """Revoke turns that were not released in time, report overdue releases, and check lanes with waiting
        leases."""
        now_seconds = self._clock.monotonic()
        for turn in tuple(self._turns.values()):
            asked_seconds = turn.yield_requested_seconds
            if asked_seconds is None:
                continue
            limit_seconds = self._revocation_limit_seconds(turn.lease)
            if now_seconds - asked_seconds >= limit_seconds:
                self._revoke(turn, limit_seconds, now_seconds)
            else:
                self._holders.repeat_request(turn)
        self._check_taken_turns(now_seconds)
        for overdue in self._pending.mark_overdue(now_seconds):
            self._recorder.record_event(overdue.lease, "TurnNotReleased", overdue.lease.overdue_release)
        self._advance_all(now_seconds)

    def release_limit_seconds(self, lease: Lease) -> float:
        """Return how long a lease may take to release its turn after a request to yield."""
        first = any(session.in_first_iteration for session in lease.sessions)
        return release_limit_seconds(
            lease.counted,
            self._settings.timeout_seconds,
            self._settings.longest_first_iteration_seconds if first else None,
        )

    def _revocation_limit_seconds(self, lease: Lease) -> float:
        """Return that time, or longer for a worker that may wait for a worker elsewhere inside its iteration."""
        settings = self._settings
        if lease.record.spans_gpus:
            return spanning_limit_seconds(
                settings.timeout_seconds, settings.longest_first_iteration_seconds, settings.kill_seconds
            )
        return self.release_limit_seconds(lease)

    def request_yield(self, lease: Lease) -> None:
        """Ask for the lease's turn back, if it has one, because of an order to pause."""
        turn = self._turns.get(lease)
        if turn is not None:
            self._holders.request_yield(turn)

    # Memory of ended turns

    @property
    def pending(self) -> PendingReleases:
        """Return the turns that ended before their memory was released."""
        return self._pending

    def fits(self, lease: Lease) -> bool:
        """Return whether memory covers the lease beside all that runs or has not released its memory."""
        return self._memory.fits(lease, [*self._turns, *self._armed.taken_leases()], self._pending)

    def observe_memory(self, reading: MemoryReading | None) -> None:
        """Record what the driver shows of the GPU's memory; None: it does not list the memory of processes."""
        if self._pending.observe(reading):
            self._release_finished()

    def process_left(self, lease: Lease, session: Session, *, ended: bool = False) -> None:
        """Record that a process is outside an iteration, or has ended. One that keeps cached memory is asked to
        free it first, if others wait for that."""
        if not ended and session.page.kept_memory and self._pending.of(lease, session.pid) is not None:
            session.page.write_keeps_memory(False)
            session.channel.free_memory()
            return
        if self._pending.process_left(lease, session.pid, self._clock.monotonic(), ended=ended):
            self._release_finished()

    def keeps_memory(self, lease: Lease) -> bool:
        """Return whether a lease has kept cached memory, as it may."""
        return self._cached.may_keep(lease) and any(session.page.kept_memory for session in lease.sessions)

    def blocked_by(self, lease: Lease) -> PendingRelease | None:
        """Return the pending release for whose memory a lease waits; None if it waits for none."""
        lane = self._memory.lane_of(lease)
        if not self._pending or lane is None or not lease.wants_turn or not lease.may_run:
            return None
        blocking = self._pending.blocking(lane, self._memory.lanes_by_key, lease)
        return next((each for each in blocking if each.blocking_since_seconds is not None), None)

    def _release_later(self, turn: Turn, session: Session, cause: str, now_seconds: float) -> None:
        """Keep the lane of an ended turn, and the memory of its lease, until the process has released it."""
        lease = turn.lease
        patience_seconds = (
            self._settings.timeout_seconds
            if turn.yield_requested_seconds is not None
            else self._revocation_limit_seconds(lease)
        )
        release = PendingRelease(lease, turn.lane, turn.number, lease.tenant(), cause, patience_seconds)
        session.page.write_keeps_memory(False)
        self._pending.add(release, session.pid, now_seconds)
        self._has_stale_turns = True
        for other in self._turns.values():
            self._disarm(other)  # memory has to be counted before the next turn begins

    def _release_finished(self) -> None:
        """Grant lanes that a pending release occupied."""
        self._refresh_stale_turns()
        self._advance_all(self._clock.monotonic())
        self._recorder.changed()

    def _may_begin(self, lease: Lease, lane: int, now_seconds: float) -> bool:
        """Return whether pending releases and turns of an earlier table leave the lane and enough memory."""
        occupying = self._pending.blocking(lane, self._memory.lanes_by_key, lease)
        if not occupying and self.fits(lease):
            return True
        for each in occupying or self._pending:
            if each.blocking_since_seconds is None and each.lease is not lease:
                each.blocking_since_seconds = now_seconds
                self._recorder.changed()
        return False

    # Lanes

    def lanes_changed(self, moved: Iterable[Lease]) -> None:
        """Handle a change of lanes: leases that moved restart their service, and turns that no longer fit
        are asked to yield."""
        now_seconds = self._clock.monotonic()
        self._has_stale_turns = True
        self._queue.rebuild()
        for turn in self._turns.values():
            if not self._keeps_next_holder(turn):
                self._disarm(turn)
        for lease in moved:
            lease.service_seconds = 0.0
            lease.newcomer = True
            if lease.view is not None:
                self._enqueue(lease, now_seconds)
        for turn in self._turns.values():
            if not self._is_current(turn):
                self._holders.request_yield(turn)
        self._update_cached_memory(now_seconds)
        self._refresh_stale_turns()
        if self._has_stale_turns:
            for turn in self._turns.values():
                self._disarm(turn)
        self._advance_all(now_seconds)

    def _update_cached_memory(self, now_seconds: float) -> None:
        """Ask for the cached memory of leases that may not keep it any more. Their lanes wait for it."""
        for lease in self._cached.update():
            turn, lane = self._turns.get(lease), self._memory.lane_of(lease)
            for session in lease.sessions:
                session.page.write_keeps_memory(False)
                if session.page.kept_memory and (turn is None or session not in turn.holders):
                    # Without a lane, as of a paused lease, only its memory counts.
                    kept = Turn(0, -1 if lane is None else lane, lease, now_seconds)
                    self._release_later(kept, session, "keeps cached memory", now_seconds)
                    session.channel.free_memory()

    def _keeps_next_holder(self, turn: Turn) -> bool:
        """Return whether the next holder of a turn still waits for its lane."""
        lane = self._memory.lanes_by_key.get(turn.next_holder)
        if lane != turn.lane or not self._is_current(turn):
            return False
        next_holder = self._memory.lease(turn.next_holder)
        return next_holder.view is not None and next_holder.may_run

    def _refresh_stale_turns(self) -> None:
        self._turn_in = {turn.lane: turn for turn in self._turns.values()}
        self._has_stale_turns = (
            bool(self._pending)
            or not all(self._is_current(turn) for turn in self._turns.values())
            or any(self._armed.taken_turns())
        )

    def _is_current(self, turn: Turn) -> bool:
        lane = self._memory.lane_of(turn.lease)
        if lane != turn.lane or turn.lease.uncovered:
            return False
        return all(
            other is turn or self._memory.lane_of(other.lease) != lane for other in self._turns.values()
        )

    def _advance_all(self, now_seconds: float) -> None:
        for lane in self._memory.lanes:
            self._advance(lane.id, now_seconds)

    def _advance(self, lane: int, now_seconds: float) -> None:
        """If a lease waits for the lane, grant the turn or schedule a check of its holder."""
        if self.awaiting_recovery or not self._queue.has_runnable(lane):
            return
        busy = self._occupying_turns(lane)
        if busy:
            for turn in busy:
                self._holders.mark_contended(turn, now_seconds)
            return
        lease = self._choose_next(lane, now_seconds)
        if lease is None or (self._has_stale_turns and not self._may_begin(lease, lane, now_seconds)):
            return
        turn = self._begin(lease, lane, now_seconds)
        if self._queue.has_runnable(lane):
            self._holders.mark_contended(turn, now_seconds)

    def _choose_next(self, lane: int, now_seconds: float) -> Lease | None:
        """Return the next lease among those that wait for a lane."""
        waiting = self._queue.views(lane)
        key = waiting[0].key if len(waiting) == 1 else self._settings.policy.choose(waiting, now_seconds)
        return None if key is None else self._memory.lease(key)

    def _occupying_turns(self, lane: int) -> Sequence[Turn]:
        if not self._has_stale_turns:
            turn = self._turn_in.get(lane)
            return () if turn is None else (turn,)
        return [
            turn
            for turn in self._turns.values()
            if turn.lane == lane or self._memory.lane_of(turn.lease) == lane
        ]

    def _enqueue(self, lease: Lease, now_seconds: float) -> None:
        """Make a lease wait, from now on or since it first requested."""
        since_seconds = lease.view.waiting_since_seconds if lease.view is not None else now_seconds
        lane = self._memory.lane_of(lease)
        if lane is not None:
            active = (view for view in self._active(lane, now_seconds) if view.key != lease.key)
            members = self._memory.members(lane)
            lease.service_seconds = service_on_entry(lease, active, members, self._settings, now_seconds)
            lease.newcomer = False
        lease.view = lease.to_view(since_seconds)
        self._queue.enter(lease)
        turn = None if lane is None else self._turn_in.get(lane)
        if turn is not None and turn.next_holder in self._memory.lanes_by_key:
            next_holder = self._memory.lease(turn.next_holder).view
            rivals = [view for view in (next_holder, lease.view) if view is not None]
            self._set_next_holder(turn, self._settings.policy.choose(rivals, now_seconds) or "")

    def _active(self, lane: int, now_seconds: float) -> Iterator[SessionView]:
        yield from self._queue.views(lane)
        for turn in self._occupying_turns(lane):
            yield turn.lease.to_view(now_seconds, turn.charge_seconds(now_seconds))

    # Granting and taking

    def _begin(
        self, lease: Lease, lane: int, now_seconds: float, sessions: Sequence[Session] | None = None
    ) -> Turn:
        """Begin a turn; by default of the sessions that requested one."""
        number = self._numbers[lane] = self._numbers.get(lane, 0) + 1
        turn = Turn(number, lane, lease, now_seconds)
        for session in lease.sessions if sessions is None else sessions:
            if session.requested or sessions is not None:
                self._grant(turn, session)
        quantum_seconds = self._settings.quantum_seconds
        if lease.view is not None:
            turn.waited_seconds = now_seconds - lease.view.waiting_since_seconds
            quantum_seconds -= self._settings.policy.surplus_seconds(lease.view)
            self._queue.leave(lease)
        # A lease that fills a gap in another's iterations yields as soon as the other returns and is
        # preferred.
        fills_gap = lane in self._idle_lanes
        self._idle_lanes.discard(lane)
        turn.quantum_ends_seconds = now_seconds + (0.0 if fills_gap else quantum_seconds)
        lease.counters.turns += 1
        self._turns[lease] = self._turn_in[lane] = turn
        self._log.began(turn)
        if len(self._turns) > 1:
            self.turns_overlap()
        return turn

    def _grant(self, turn: Turn, session: Session) -> None:
        turn.holders.append(session)
        if len(turn.holders) > 1:
            self._withdraw(turn, self._clock.monotonic())  # the first to release would not end the turn
        session.mark_granted()
        session.page.write_keeps_memory(self._cached.may_keep(turn.lease))
        session.channel.grant(turn.number)

    def _remove_process(
        self,
        turn: Turn,
        session: Session,
        now_seconds: float,
        iterations: int | None = None,
        gpu_seconds: float = 0.0,
    ) -> None:
        """Remove a process from a turn. The page's counts apply if the message reports less or is missing."""
        seen_seconds = session.busy_seconds_since_grant(
            int(now_seconds * NANOSECONDS), int(turn.began_seconds * NANOSECONDS)
        )
        seen_iterations = max(0, session.page.iterations - session.granted_iterations)
        turn.remove_process(
            session,
            seen_iterations if iterations is None else iterations,
            max(gpu_seconds, seen_seconds),
            now_seconds,
        )
        session.page.write_turn(0)

    def _revoke(self, turn: Turn, limit_seconds: float, now_seconds: float) -> None:
        text = f"did not yield within {limit_seconds:g} s"
        turn.lease.last_event = f"lost turn {turn.number} of lane {turn.lane}: {text}"
        for session in tuple(turn.holders):
            self._remove_process(turn, session, now_seconds)
            self._release_later(turn, session, text, now_seconds)
            session.channel.revoke(turn.number, text)
        self._end(turn, TurnEnd.REVOKED, now_seconds, "stalled")
        self._recorder.record_event(turn.lease, "TurnRevoked", turn.lease.last_event)

    def _set_next_holder(self, turn: Turn, key: str) -> None:
        """Set which lease follows a turn, and arm its process. A successor that has begun stays."""
        armed = self._armed.of(turn)
        if armed is not None and armed.is_taken:
            return
        turn.next_holder = key
        if not self._has_stale_turns:
            self._armed.arm(turn)

    def _hand_off(self, turn: Turn, now_seconds: float) -> None:
        """Grant the lane of an ending turn to its next holder, if that lease may still run.

        A successor that has begun while that was so has its turn in any case. If it may not run any more, it
        is asked to yield, as the holder of any turn of an earlier table.
        """
        armed = self._armed.of(turn)
        taken = armed is not None and armed.is_taken
        next_holder = armed.lease if armed is not None and taken else self._memory.lease(turn.next_holder)
        may_run = next_holder.may_run and not self._has_stale_turns
        if next_holder.view is not None and (may_run or taken):
            turn.holders[0].page.write_turn(0)
            self._free_lane(turn, now_seconds, handed_off=True)
            begun = self._begin(next_holder, turn.lane, now_seconds)
            self._armed.pop(turn)
            if not may_run:
                self._has_stale_turns = True
                self._holders.request_yield(begun)

    def _disarm(self, turn: Turn) -> None:
        """Forget the successor of a turn, unless it has begun."""
        armed = self._armed.of(turn)
        if armed is None or not armed.is_taken:
            turn.next_holder = ""
            self._withdraw(turn, self._clock.monotonic())

    def _withdraw(self, turn: Turn, now_seconds: float) -> None:
        """Disarm the successor of a turn. If it has begun, it is told to stop, and the lane waits for it."""
        armed = self._armed.pop(turn)
        if armed is None or not armed.is_taken:
            return
        text = "the lane changed while it was handed over"
        claimed = Turn(armed.number, turn.lane, armed.lease, now_seconds)
        self._numbers[turn.lane] = max(self._numbers[turn.lane], armed.number)
        self._release_later(claimed, armed.session, text, now_seconds)
        armed.session.channel.revoke(armed.number, text)

    def _check_taken_turns(self, now_seconds: float) -> None:
        """Stop successors that have begun although their predecessor does not release."""
        for turn in self._armed.taken_turns():
            if turn.taken_since_seconds is None:
                turn.taken_since_seconds = now_seconds
            elif now_seconds - turn.taken_since_seconds >= self._settings.release_seconds:
                armed = self._armed.of(turn)
                assert armed is not None, "the turn was listed because it has a successor"
                turn.lease.may_be_armed = armed.lease.may_be_armed = False
                self._withdraw(turn, now_seconds)
                turn.next_holder = ""

    def _free_lane(self, turn: Turn, now_seconds: float, *, handed_off: bool = False) -> None:
        """Free the lane of a turn for others. Unless it is handed off, its successor is disarmed."""
        if not handed_off:
            self._withdraw(turn, now_seconds)
        self._holders.forget(turn)
        if turn.yielded_idle:
            self._idle_lanes.add(turn.lane)
        del self._turns[turn.lease]
        del self._turn_in[turn.lane]

    def _end(self, turn: Turn, end: TurnEnd, now_seconds: float, reason: str = "") -> None:
        lease = turn.lease
        if self._turns.get(lease) is turn:
            self._free_lane(turn, now_seconds)
        charge_seconds = turn.charge_seconds(now_seconds)
        lease.service_seconds += charge_seconds
        lease.attained_seconds += charge_seconds
        lease.turn_time.ended_seconds += now_seconds - turn.began_seconds
        lease.away_since_seconds = now_seconds
        since_seconds = turn.contended_since_seconds
        lease.kept_waiting_seconds = 0.0 if since_seconds is None else now_seconds - since_seconds
        if lease.wants_turn:
            self._enqueue(lease, now_seconds)
        if self._has_stale_turns:
            self._refresh_stale_turns()
            self._advance_all(now_seconds)
        else:
            self._advance(turn.lane, now_seconds)
        self._log.ended(turn, end, reason, now_seconds)
