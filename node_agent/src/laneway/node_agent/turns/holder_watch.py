"""Looks after those who hold turns that others want: says when to leave, looks again, asks for the turn."""

from __future__ import annotations

from functools import partial

from laneway.node_agent.clock import Clock
from laneway.node_agent.turns.making_room import MakeRoom, judge
from laneway.node_agent.turns.session import NANOSECONDS
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.timers import Timers
from laneway.node_agent.turns.turn import Turn
from laneway.node_agent.turns.waiting import Waiting


class HolderWatch:
    """Of one GPU. A turn that somebody wants has a timer until it is asked for, or over."""

    def __init__(self, waiting: Waiting, settings: TurnSettings, clock: Clock, timers: Timers) -> None:
        self._waiting = waiting
        self._settings = settings
        self._clock = clock
        self._timers = timers

    def note_wanted(self, turn: Turn, now_seconds: float) -> None:
        """Somebody else waits for the turn: see to it that it is looked at again."""
        turn.note_wanted(now_seconds)
        if turn.yield_asked_seconds is None and turn.check is None:
            self._check(turn, now_seconds)

    def ask_back(self, turn: Turn) -> None:
        """Ask for the turn, once."""
        if turn.yield_asked_seconds is not None:
            return
        turn.yield_asked_seconds = self._clock.monotonic()
        self.remind(turn)

    def remind(self, turn: Turn) -> None:
        """Ask again: who ended an iteration in the very moment in which its page was written may have missed it."""
        for session in turn.holders:
            session.line.ask_yield(turn.number)

    def forget(self, turn: Turn) -> None:
        """A turn is over: it is not looked at any more."""
        if turn.check is not None:
            turn.check.cancel()
            turn.check = None

    def _look_again(self, turn: Turn) -> None:
        turn.check = None
        if turn.yield_asked_seconds is None:
            self._check(turn, self._clock.monotonic())

    def _check(self, turn: Turn, now_seconds: float) -> None:
        """Ask for the turn if somebody else should run; else look again later."""
        if not self._waiting.anybody(turn.lane):
            return
        waiting = partial(self._waiting.views, turn.lane)
        verdict = judge(turn, waiting, self._settings, now_seconds)
        if isinstance(verdict, MakeRoom):
            turn.left_idle, turn.heir = verdict.idle, verdict.heir
            self.ask_back(turn)
            return
        turn.quantum_ends_seconds = verdict.quantum_ends_seconds
        if verdict.leaves_seconds is not None and len(turn.hold.sessions) == 1:
            # Of several processes each would leave at a boundary of its own, and come back for the others.
            turn.leaves_seconds, turn.heir = verdict.leaves_seconds, verdict.heir
            turn.hold.sessions[0].page.show_yield(int(verdict.leaves_seconds * NANOSECONDS))
        turn.check = self._timers.call_at(verdict.look_again_seconds, partial(self._look_again, turn))
