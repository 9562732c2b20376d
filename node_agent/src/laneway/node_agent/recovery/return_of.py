"""The return of the sessions after a restart of the agent.

The new agent finds the containers in their folders, takes lanes and counters from the state file, and knows from it which
processes were connected. Until each of them has come back or ended, nobody is granted a turn on that GPU: one of them may
be inside an iteration. Those that come back inside one keep their turn. Who does not come back in the time that a holder
has to yield is treated as one who lost its connection: its memory counts, its turn does not.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from laneway.lanes import LaneTable
from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.orders.standing import OrderWord, Standing
from laneway.node_agent.recovery.processes import start_ticks
from laneway.node_agent.recovery.state import AgentState, GPUState, HoldState, ProcessState, sizes_of
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.hold import Counters, Hold
from laneway.node_agent.turns.session import NANOSECONDS, Session

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.02
_LEAST_WAIT_SECONDS = 0.5
"""A process that connected just before the old agent ended may not be in its state file: clients try again every 0.2 s."""


@dataclass(slots=True)
class RememberedPage:
    """The last figures of a process that has not come back."""

    iterations: int
    busy_ns: int
    held_bytes: int
    inside: bool = False
    boundary_ns: int = 0
    highest_bytes: int = 0
    data_ns: int = 0

    def show_turn(self, turn: int) -> None:
        """Nobody reads it."""

    def show_yield(self, from_ns: int = 1) -> None:
        """Nobody reads it."""

    def show_room(self, room_bytes: int) -> None:
        """Nobody reads it."""


class NoLine:
    """The line to a process that has not come back: nothing can be said to it."""

    def grant(self, turn: int) -> None:
        """Nobody hears it."""

    def ask_yield(self, turn: int) -> None:
        """Nobody hears it."""

    def excuse(self) -> None:
        """It sends nothing."""

    def revoke(self, turn: int, reason: str) -> None:
        """Nobody hears it."""

    def order(self, word: OrderWord) -> None:
        """Nobody hears it."""


class ReturnOfSessions:
    """Brings back what was remembered, and waits for the processes."""

    def __init__(
        self, gpus: Mapping[str, GPUTurns], loop: EventLoop, clock: Clock, timeout_seconds: float
    ) -> None:
        self._gpus = gpus
        self._loop = loop
        self._clock = clock
        self._timeout_seconds = timeout_seconds

    def begin(self, state: AgentState) -> None:
        """Bring back what the state says of containers that still are there."""
        now_seconds = self._clock.monotonic()
        for gpu in state.gpus:
            turns = self._gpus.get(gpu.uuid)
            if turns is not None and turns.holds:
                self._bring_back(turns, gpu)
                turns.giver.waits_for_survivors = True
                self._wait(turns, now_seconds + _LEAST_WAIT_SECONDS, now_seconds + self._timeout_seconds)

    def _bring_back(self, turns: GPUTurns, state: GPUState) -> None:
        holds = {}
        parked, waited = set(), set()
        for remembered in state.holds:
            hold = turns.holds.get(remembered.key)
            if hold is not None and _is_of(hold, remembered):
                self._bring_back_hold(turns, hold, remembered)
                if hold.sessions and not hold.offloaded:
                    holds[hold.key] = hold
                    parked |= {hold.key} if remembered.parked else set()
                    waited |= {hold.key} if not remembered.admitted else set()
        _bring_back_lanes(turns, state, holds, parked, waited)
        _log.info("GPU %s: %d containers' processes are expected back", turns.gpu.uuid, len(holds))

    def _bring_back_hold(self, turns: GPUTurns, hold: Hold, state: HoldState) -> None:
        hold.counters = Counters(state.turns, state.iterations, state.busy_ns, state.data_ns)
        hold.last_sizes = sizes_of(state.last_sizes)
        hold.attained_seconds = state.busy_ns / NANOSECONDS
        hold.welcomed = True
        for process in state.processes:
            if start_ticks(process.pid) == process.start_ticks:
                self._expect(turns, hold, process)
            else:
                hold.counters.iterations += process.iterations
                hold.counters.busy_ns += process.busy_ns
                hold.counters.data_ns += process.data_ns
        if hold.sessions:
            hold.counted = sizes_of(state.counted)
            hold.lost = True
            hold.offloaded = state.offloaded
            hold.held_back = hold.order is not None or state.parked or state.offloaded

    def _expect(self, turns: GPUTurns, hold: Hold, process: ProcessState) -> None:
        page = RememberedPage(
            process.iterations, process.busy_ns, process.held_bytes, data_ns=process.data_ns
        )
        session = Session(
            process.pid,
            page,
            NoLine(),
            start_ticks=process.start_ticks,
            connected=False,
            remembered=True,
            sizes=sizes_of(process.sizes),
            framework_seen_bytes=process.framework_seen_bytes,
            framework_reserve_bytes=process.framework_reserve_bytes,
        )
        if process.offloaded_bytes is not None:
            session.standing = Standing(offloaded=True, offloaded_bytes=process.offloaded_bytes)
        hold.sessions.append(session)
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError:
            self._loop.post(lambda: turns.process_ended(hold, session))
            return

        def ended() -> None:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
            turns.process_ended(hold, session)

        self._loop.add_reader(pidfd, ended)

    def _wait(self, turns: GPUTurns, least_seconds: float, most_seconds: float) -> None:
        now_seconds = self._clock.monotonic()
        expected = [s for hold in turns.holds.values() for s in hold.sessions if s.remembered]
        if (expected or now_seconds < least_seconds) and now_seconds < most_seconds:
            self._loop.call_at(
                now_seconds + _LOOK_SECONDS, lambda: self._wait(turns, least_seconds, most_seconds)
            )
            return
        if expected:
            pids = ", ".join(str(session.pid) for session in expected)
            _log.warning("GPU %s: processes %s live and have not come back", turns.gpu.uuid, pids)
        turns.giver.survivors_are_back()


def _is_of(hold: Hold, state: HoldState) -> bool:
    record = hold.record
    if state.pod_uid and record.pod_uid:
        return state.pod_uid == record.pod_uid
    return (state.namespace, state.pod, state.container) == (record.namespace, record.pod, record.container)


def _bring_back_lanes(
    turns: GPUTurns,
    state: GPUState,
    holds: Mapping[str, Hold],
    parked: Collection[str],
    waited: Collection[str],
) -> None:
    """Put the tenants into the lanes that they had, if a new configuration allows that."""
    rules, capacity_bytes = turns.memory.table.rules, turns.gpu.allocatable_bytes
    tenants = {key: hold.tenant() for key, hold in holds.items()}
    kept = [(lane.id, tuple(key for key in lane.tenants if key in holds)) for lane in state.lanes]
    lanes = {number: tuple(tenants[key] for key in keys) for number, keys in kept if keys}
    table = LaneTable.restored(capacity_bytes, rules, lanes)
    if table is not None:
        turns.memory.restore(table, [holds[tenant.key] for tenant in table.tenants])
    for hold in holds.values():
        if not hold.in_table:
            turns.memory.enter(hold, was_admitted=hold.key not in waited)
        if hold.key in parked:
            turns.memory.park(hold)
