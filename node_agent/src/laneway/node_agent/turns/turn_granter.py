"""Begin and end the turns of one GPU's lanes: who is next, what a turn starts with, and what it leaves.

The order at the end of a turn is: grant the lane to the next holder, charge the turn that has ended, let its lease
wait again, find out when the new holder should yield and who follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laneway.node_agent.clock import Clock
from laneway.node_agent.turns.armed_hand_off import ArmedHandOffs, ArmedTurn
from laneway.node_agent.turns.charging import charge_ended_turn
from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.holder_monitor import HolderMonitor
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.next_holders import NextHolders
from laneway.node_agent.turns.running_turns import RunningTurns
from laneway.node_agent.turns.session import Session
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.timers import Timers
from laneway.node_agent.turns.turn import Turn, TurnEnd
from laneway.node_agent.turns.turn_log import TurnLog
from laneway.node_agent.turns.turn_memory import TurnMemory
from laneway.node_agent.turns.wait_queue import WaitQueue


class TurnGranter:
    """Begins and ends turns. It grants none while :attr:`awaiting_recovery`."""

    def __init__(
        self,
        lanes: LaneMemory,
        settings: TurnSettings,
        clock: Clock,
        timers: Timers,
        log: TurnLog,
        recorder: EventRecorder,
    ) -> None:
        self.awaiting_recovery = False
        self.turns_overlap: Callable[[], None] = lambda: None
        """Called when a turn begins beside another one."""
        self.running = RunningTurns(lanes)
        self.queue = WaitQueue(lanes, self.running, settings)
        self.armed = ArmedHandOffs(lanes)
        self.next_holders = NextHolders(lanes, self.running, self.armed, settings.policy, self._stop)
        self.holders = HolderMonitor(self.queue, settings, clock, timers, self.next_holders.set)
        self.memory = TurnMemory(lanes, self.running, self.armed, self.next_holders, settings, recorder)
        self._lanes = lanes
        self._settings = settings
        self._clock = clock
        self._log = log
        self._idle_lanes: set[int] = set()
        """Lanes whose next holder fills a gap in another's iterations."""

    def advance_all(self, now_seconds: float) -> None:
        """Advance all lanes."""
        for lane in self._lanes.lanes:
            self.advance(lane.id, now_seconds)

    def advance(self, lane: int, now_seconds: float, predecessor: Lease | None = None) -> None:
        """If a lease waits for the lane, grant the turn or schedule a check of its holder.

        Args:
            lane: the lane.
            now_seconds: the current time.
            predecessor: it had the lane until now, will usually want it again, and is not in the queue yet.
        """
        if self.awaiting_recovery or not self.queue.has_runnable(lane):
            return
        busy = self.running.occupying(lane)
        if busy:
            for turn in busy:
                self.holders.mark_contended(turn, now_seconds)
            return
        lease = self.queue.choose(lane, now_seconds, predecessor)
        if lease is None or (self.running.stale and not self.memory.may_begin(lease, lane, now_seconds)):
            return
        turn = self.begin(lease, lane, now_seconds, predecessor=predecessor)
        if self.queue.has_runnable(lane):
            self.holders.mark_contended(turn, now_seconds)

    def enqueue(self, lease: Lease, lane: int | None, now_seconds: float) -> None:
        """Make a lease wait. It follows the turn of its lane if the policy prefers it to the present next holder."""
        self.queue.enter(lease, lane, now_seconds)
        turn = None if lane is None else self.running.in_lane.get(lane)
        if turn is not None and turn.next_holder:
            self.next_holders.compare(turn, lease, now_seconds)

    def begin(
        self,
        lease: Lease,
        lane: int,
        now_seconds: float,
        sessions: Sequence[Session] | None = None,
        predecessor: Lease | None = None,
    ) -> Turn:
        """Begin a turn; by default of the sessions that requested one. A predecessor that hands over is not in
        the queue yet."""
        turn = Turn(self.running.next_number(lane), lane, lease, now_seconds)
        for session in lease.sessions if sessions is None else sessions:
            if session.requested or sessions is not None:
                self.grant(turn, session)
        quantum_seconds = self._settings.quantum_seconds
        view = lease.view
        if view is not None:
            turn.waited_seconds = now_seconds - view.waiting_since_seconds
            lease.turn_time.waited_seconds += turn.waited_seconds
            weights = [] if predecessor is None else [predecessor.weight]
            weights += self.queue.weights(lane, but=lease)
            if weights:
                turn.mean_weight = (view.weight + sum(weights)) / (1 + len(weights))
            quantum_seconds = self._settings.turn_seconds(view, weights)
            turn.wait_ratio = sum(weights) / view.weight if weights else 1.0
            lease.gap_wait.begin_turn(turn.waited_seconds)
            self.queue.leave(lease)
        # A lease that fills a gap in another's iterations yields as soon as the other returns and is
        # preferred.
        fills_gap = lane in self._idle_lanes
        self._idle_lanes.discard(lane)
        turn.quantum_ends_seconds = now_seconds + (0.0 if fills_gap else quantum_seconds)
        lease.counters.turns += 1
        self.running.add(turn)
        self._log.began(turn)
        if len(self.running.by_lease) > 1:
            self.turns_overlap()
        return turn

    def grant(self, turn: Turn, session: Session) -> None:
        """Let a process take part in its lease's turn."""
        turn.holders.append(session)
        if len(turn.holders) > 1:
            self.next_holders.withdraw(turn)  # the first to release would not end the turn
        session.mark_granted()
        session.page.write_keeps_memory(self.memory.may_keep_cache(turn.lease))
        session.channel.grant(turn.number)

    def hand_off(self, turn: Turn, now_seconds: float) -> None:
        """Grant the lane of an ending turn to its next holder, if that lease may still run.

        A successor that has begun while that was so has its turn in any case. If it may not run any more, it
        is asked to yield, as the holder of any turn of an earlier table.
        """
        lease, taken = self.next_holders.successor(turn)
        may_run = lease.may_run and not self.running.stale
        if lease.view is not None and (may_run or taken):
            turn.holders[0].page.write_turn(0)
            self._free_lane(turn)
            begun = self.begin(lease, turn.lane, now_seconds, predecessor=turn.lease)
            self.armed.pop(turn)
            if not may_run:
                self.running.stale = True
                self.holders.request_yield(begun)

    def _free_lane(self, turn: Turn) -> None:
        """Free the lane of a turn for others."""
        self.holders.forget(turn)
        if turn.yielded_idle:
            self._idle_lanes.add(turn.lane)
        if turn.leaves_gap:
            turn.lease.gap_wait.leave()
        self.running.remove(turn)

    def end(self, turn: Turn, end: TurnEnd, now_seconds: float, reason: str = "") -> None:
        """End a turn without holders: grant its lane, unless it was handed off, and charge it."""
        lease = turn.lease
        if self.running.by_lease.get(lease) is turn:
            self.next_holders.withdraw(turn)
            self._free_lane(turn)
        charge_ended_turn(turn, now_seconds)
        if lease.wants_turn:
            self.enqueue(lease, self._lanes.lane_of(lease), now_seconds)
        if self.running.stale:
            self.memory.refresh_stale_turns()
            self.advance_all(now_seconds)
        else:
            self.advance(turn.lane, now_seconds, lease if lease.view is None else None)
        self._log.ended(turn, end, reason, now_seconds)

    def _stop(self, turn: Turn, armed: ArmedTurn) -> None:
        """Stop a successor that has begun, and may not have its turn. The lane waits for it."""
        now_seconds, text = self._clock.monotonic(), "the lane changed while it was handed over"
        claimed = Turn(armed.number, turn.lane, armed.lease, now_seconds)
        self.memory.release_later(claimed, armed.session, text, now_seconds)
        armed.session.channel.revoke(armed.number, text)
