"""Watch holders of contended turns: announce when to yield, check again, and request the yield."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from laneway.node_agent.clock import Clock
from laneway.node_agent.turns.session import NANOSECONDS
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.timers import Timers
from laneway.node_agent.turns.turn import Turn
from laneway.node_agent.turns.wait_queue import WaitQueue
from laneway.node_agent.turns.yield_decision import YieldNow, decide


class HolderMonitor:
    """Serves one GPU. A contended turn has a timer until it is asked to yield or ends."""

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

    def mark_contended(self, turn: Turn, now_seconds: float) -> None:
        """Record that another lease waits for the turn, and schedule the next check."""
        turn.mark_contended(now_seconds)
        if turn.yield_requested_seconds is None and turn.check is None:
            self._check(turn, now_seconds)

    def request_yield(self, turn: Turn) -> None:
        """Ask the holder to yield, once."""
        if turn.yield_requested_seconds is not None:
            return
        turn.yield_requested_seconds = self._clock.monotonic()
        self.repeat_request(turn)
        self.forget(turn)
        if any(session.page.inside for session in turn.holders):
            # A holder that was leaving its iteration may have looked at its page just before.
            again_seconds = turn.yield_requested_seconds + self._settings.poll_seconds
            turn.check = self._timers.call_at(again_seconds, partial(self._repeat_once, turn))

    def repeat_request(self, turn: Turn) -> None:
        """Repeat the request: a holder that ended an iteration while its page was written may have missed
        it."""
        for session in turn.holders:
            session.channel.request_yield(turn.number)

    def _repeat_once(self, turn: Turn) -> None:
        turn.check = None
        self.repeat_request(turn)

    def forget(self, turn: Turn) -> None:
        """Stop checking a turn that is over."""
        if turn.check is not None:
            turn.check.cancel()
            turn.check = None

    def _check_again(self, turn: Turn) -> None:
        turn.check = None
        if turn.yield_requested_seconds is None:
            self._check(turn, self._clock.monotonic())

    def _check(self, turn: Turn, now_seconds: float) -> None:
        """Ask for the turn if another lease should run; otherwise check again later."""
        if not self._queue.has_runnable(turn.lane):
            return
        waiting = partial(self._queue.views, turn.lane)
        decision = decide(turn, waiting, self._settings, now_seconds)
        if isinstance(decision, YieldNow):
            turn.yielded_idle = decision.idle
            self._set_next_holder(turn, decision.next_holder)
            self.request_yield(turn)
            return
        turn.quantum_ends_seconds = decision.quantum_ends_seconds
        if decision.yield_at_seconds is not None and len(turn.lease.sessions) == 1:
            # Several processes would each yield at a boundary of their own and then wait for the others.
            turn.yield_at_seconds = decision.yield_at_seconds
            self._set_next_holder(turn, decision.next_holder)
            turn.lease.sessions[0].page.write_yield(int(decision.yield_at_seconds * NANOSECONDS))
        turn.check = self._timers.call_at(decision.check_again_seconds, partial(self._check_again, turn))
