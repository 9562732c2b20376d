"""Watch holders of contended turns: announce when to yield, check again, and request the yield."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import Timer
from laneway.node_agent.turns.session import NANOSECONDS
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.timers import Timers
from laneway.node_agent.turns.turn import Turn
from laneway.node_agent.turns.wait_queue import WaitQueue
from laneway.node_agent.turns.yield_decision import YieldNow, decide, next_look_seconds, repeat_seconds


class HolderMonitor:
    """Serves one GPU. A contended turn has a next check until it ends. Checks that are due at the same time share a
    timer, which is cancelled when all their turns have ended: most turns end before their check."""

    def __init__(
        self,
        waiting: WaitQueue,
        settings: TurnSettings,
        clock: Clock,
        timers: Timers,
        set_next_holder: Callable[[Turn, str], None],
    ) -> None:
        self._queue = waiting
        self._set_next_holder = set_next_holder
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._due: dict[float, tuple[Timer, dict[Turn, None]]] = {}
        """By the time of a timer, the turns to check then."""

    def mark_contended(self, turn: Turn, now_seconds: float) -> None:
        """Record that another lease waits for the turn, and schedule the next check."""
        turn.mark_contended(now_seconds)
        if turn.yield_requested_seconds is None and turn.check_seconds is None:
            self._check(turn, now_seconds)

    def request_yield(self, turn: Turn) -> None:
        """Ask the holder to yield, once."""
        if turn.yield_requested_seconds is not None:
            return
        turn.yield_requested_seconds = self._clock.monotonic()
        self.repeat_request(turn)
        self.forget(turn)
        if turn.is_inside:
            # A holder that was leaving its iteration may have looked at its page just before.
            self._check_at(turn, repeat_seconds(turn.yield_requested_seconds, self._settings))

    def repeat_request(self, turn: Turn) -> None:
        """Repeat the request: a holder that ended an iteration while its page was written may have missed
        it."""
        for session in turn.holders:
            session.channel.request_yield(turn.number)

    def forget(self, turn: Turn) -> None:
        """Stop checking a turn."""
        due_seconds, turn.check_seconds = turn.check_seconds, None
        due = None if due_seconds is None else self._due.get(due_seconds)
        if due_seconds is None or due is None:
            return
        timer, turns = due
        turns.pop(turn)
        if not turns:
            timer.cancel()
            del self._due[due_seconds]

    def _check_at(self, turn: Turn, due_seconds: float) -> None:
        turn.check_seconds = due_seconds
        due = self._due.get(due_seconds)
        if due is None:
            timer = self._timers.call_at(due_seconds, partial(self._check_due, due_seconds))
            due = self._due[due_seconds] = timer, {}
        due[1][turn] = None

    def _check_due(self, due_seconds: float) -> None:
        now_seconds = self._clock.monotonic()
        _, turns = self._due.pop(due_seconds)
        for turn in turns:
            if turn.check_seconds != due_seconds:  # it was forgotten in the check of another turn
                continue
            turn.check_seconds = None
            if turn.yield_requested_seconds is not None:
                self.repeat_request(turn)
            else:
                self._check(turn, now_seconds)

    def _check(self, turn: Turn, now_seconds: float) -> None:
        """Ask for the turn if another lease should run; otherwise check again later."""
        if turn.yield_at_seconds is not None and self._yields_by_itself(turn):
            if now_seconds >= turn.yield_at_seconds:
                # Its page has asked it already. From now on it is late.
                turn.yield_requested_seconds = now_seconds
            self._check_at(turn, next_look_seconds(turn, self._settings, now_seconds))
            return
        waiting = self._queue.views(turn.lane)
        if not waiting:
            return
        decision = decide(turn, waiting, self._settings, now_seconds)
        if isinstance(decision, YieldNow):
            turn.yielded_idle, turn.leaves_gap = decision.idle, decision.leaves_gap
            self._set_next_holder(turn, decision.next_holder)
            self.request_yield(turn)
            return
        turn.quantum_ends_seconds = decision.quantum_ends_seconds
        if decision.yield_at_seconds is not None and len(turn.lease.sessions) == 1:
            # Several processes would each yield at a boundary of their own and then wait for the others.
            turn.yield_at_seconds = decision.yield_at_seconds
            self._set_next_holder(turn, decision.next_holder)
            turn.lease.sessions[0].page.write_yield(int(decision.yield_at_seconds * NANOSECONDS))
        self._check_at(turn, decision.check_again_seconds)

    def _yields_by_itself(self, turn: Turn) -> bool:
        """Return whether a holder is inside an iteration, was told when to yield, and its next holder still waits."""
        return len(turn.holders) == 1 and turn.is_inside and self._queue.has(turn.lane, turn.next_holder)
