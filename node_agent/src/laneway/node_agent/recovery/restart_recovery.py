"""Recovers sessions after a restart of the agent.

The new agent finds the containers in their folders. The state file holds their lanes, their counters and the
processes that were connected. Until each of those has reconnected or ended, no turn is granted on that GPU,
because one of them may be inside an iteration. A process that reconnects inside one keeps its turn. A process
that does not reconnect within the time that a holder has to yield counts as disconnected: its memory counts,
its turn has ended.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from laneway.lanes import LaneTable, SeenMemory
from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.processes import start_ticks
from laneway.node_agent.recovery.account_recovery import restore_accounts
from laneway.node_agent.recovery.restored_container import is_same_container
from laneway.node_agent.recovery.state import AgentState, GPUState, LeaseState, ProcessState, sizes_of
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.lease import Counters, Lease
from laneway.node_agent.turns.order_state import OrderCommand, OrderState
from laneway.node_agent.turns.session import NANOSECONDS, ClientChannel, Session

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.02
_MIN_WAIT_SECONDS = 0.5
"""A process that connected just before the old agent ended may be missing in its state file. Clients retry
every 0.2 s."""


@dataclass(slots=True)
class RestoredPage:
    """The last counters of a process that has not reconnected."""

    iterations: int
    busy_ns: int
    held_bytes: int
    taken: int = 0
    taken_ns: int = 0
    kept_memory: bool = False
    inside: bool = False
    boundary_ns: int = 0
    peak_bytes: int = 0
    data_ns: int = 0

    def write_turn(self, turn: int) -> None:
        """Do nothing: no process reads this page."""

    def write_yield(self, from_ns: int = 1) -> None:
        """Do nothing: no process reads this page."""

    def write_available(self, available_bytes: int) -> None:
        """Do nothing: no process reads this page."""

    def write_keeps_memory(self, keeps: bool) -> None:
        """Do nothing: no process reads this page."""

    def write_successor(self, wake: int) -> None:
        """Do nothing: no process reads this page."""

    def write_armed(self, turn: int, wake: int) -> None:
        """Do nothing: no process reads this page."""


class DisconnectedChannel:
    """The channel to a process that has not reconnected: nothing can be sent to it."""

    def grant(self, turn: int) -> None:
        """Nothing is sent."""

    def request_yield(self, turn: int) -> None:
        """Nothing is sent."""

    def credit_release(self) -> None:
        """Nothing is received."""

    def free_memory(self) -> None:
        """Nothing is sent."""

    def share_wake(self, wake: int, successor: ClientChannel) -> None:
        """Nothing is sent."""

    def give_wake(self, wake: int, descriptor: int, *, signals: bool) -> None:
        """Nothing is sent."""

    def forget_wake(self, wake: int) -> None:
        """Nothing is sent."""

    def revoke(self, turn: int, reason: str) -> None:
        """Nothing is sent."""

    def order(self, command: OrderCommand) -> None:
        """Nothing is sent."""


class RestartRecovery:
    """Restores the saved state and waits for the processes."""

    def __init__(
        self, gpus: Mapping[str, GPUTurns], loop: EventLoop, clock: Clock, timeout_seconds: float
    ) -> None:
        self._gpus = gpus
        self._loop = loop
        self._clock = clock
        self._timeout_seconds = timeout_seconds

    def begin(self, state: AgentState) -> None:
        """Restore the state of containers that still exist."""
        now_seconds = self._clock.monotonic()
        for gpu in state.gpus:
            turns = self._gpus.get(gpu.uuid)
            if turns is not None and turns.leases:
                self._restore_gpu(turns, gpu)
                restore_accounts(turns, gpu, self._loop)
                turns.scheduler.awaiting_recovery = True
                self._wait(turns, now_seconds + _MIN_WAIT_SECONDS, now_seconds + self._timeout_seconds)

    def _restore_gpu(self, turns: GPUTurns, state: GPUState) -> None:
        paused, admitted = set(), set()
        for saved in state.leases:
            lease = turns.leases.get(saved.key)
            if lease is not None and is_same_container(lease, saved):
                self._restore_lease(turns, lease, saved)
                paused |= {lease.key} if saved.paused else set()
                started_over = bool(saved.processes) and not lease.sessions
                admitted |= {lease.key} if saved.admitted and not started_over else set()
        leases = {key: lease for key, lease in turns.leases.items() if not lease.offloaded}
        _restore_lanes(turns, state, leases, paused, admitted)
        _log.info("state restored, waiting for clients gpu=%s containers=%d", turns.gpu.uuid, len(leases))

    def _restore_lease(self, turns: GPUTurns, lease: Lease, state: LeaseState) -> None:
        lease.counters = Counters(state.turns, state.iterations, state.busy_ns, state.data_ns)
        lease.last_sizes = sizes_of(state.last_sizes)
        lease.attained_seconds = state.busy_ns / NANOSECONDS
        lease.welcomed = state.welcomed
        lease.seen = SeenMemory(state.resident_bytes, state.occupied_bytes, self._clock.monotonic())
        for process in state.processes:
            if start_ticks(process.pid) == process.start_ticks:
                self._restore_process(turns, lease, process)
            else:
                lease.counters.iterations += process.iterations
                lease.counters.busy_ns += process.busy_ns
                lease.counters.data_ns += process.data_ns
        if lease.sessions:
            lease.counted = sizes_of(state.counted)
            lease.lost = True
            lease.offloaded = state.offloaded
            lease.blocked = lease.order is not None or state.paused or state.offloaded

    def _restore_process(self, turns: GPUTurns, lease: Lease, process: ProcessState) -> None:
        page = RestoredPage(process.iterations, process.busy_ns, process.held_bytes, data_ns=process.data_ns)
        session = Session(
            process.pid,
            page,
            DisconnectedChannel(),
            start_ticks=process.start_ticks,
            connected=False,
            awaiting_reconnect=True,
            sizes=sizes_of(process.sizes),
            framework_seen_bytes=process.framework_seen_bytes,
            framework_reserve_bytes=process.framework_reserve_bytes,
        )
        if process.offloaded_bytes is not None:
            session.order_state = OrderState(offloaded=True, offloaded_bytes=process.offloaded_bytes)
        lease.sessions.append(session)
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError:
            self._loop.post(lambda: turns.process_ended(lease, session))
            return

        def ended() -> None:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
            turns.process_ended(lease, session)

        self._loop.add_reader(pidfd, ended)

    def _wait(self, turns: GPUTurns, earliest_seconds: float, latest_seconds: float) -> None:
        now_seconds = self._clock.monotonic()
        expected = [s for lease in turns.leases.values() for s in lease.sessions if s.awaiting_reconnect]
        if (expected or now_seconds < earliest_seconds) and now_seconds < latest_seconds:
            self._loop.call_at(
                now_seconds + _POLL_SECONDS, lambda: self._wait(turns, earliest_seconds, latest_seconds)
            )
            return
        if expected:
            pids = ", ".join(str(session.pid) for session in expected)
            _log.warning("processes have not reconnected gpu=%s pids=%r", turns.gpu.uuid, pids)
        turns.scheduler.finish_recovery()


def _restore_lanes(
    turns: GPUTurns,
    state: GPUState,
    leases: Mapping[str, Lease],
    paused: Collection[str],
    admitted: Collection[str],
) -> None:
    """Put the tenants back into their lanes, if the configuration still allows it.

    Others are admitted after them: those that hold memory, and then those that came while no agent ran.
    """
    rules, capacity_bytes = turns.memory.table.rules, turns.gpu.allocatable_bytes
    tenants = {key: lease.tenant() for key, lease in leases.items()}
    kept = [(lane.id, tuple(key for key in lane.tenants if key in admitted)) for lane in state.lanes]
    lanes = {number: tuple(tenants[key] for key in keys if key in leases) for number, keys in kept}
    table = LaneTable.restored(capacity_bytes, rules, lanes) or LaneTable.empty(capacity_bytes, rules)
    turns.memory.restore(table, [leases[tenant.key] for tenant in table.tenants])
    for lease in sorted(leases.values(), key=lambda each: not each.holds_memory):
        if not lease.in_table:
            turns.memory.enter(lease, was_admitted=lease.key in admitted)
        if lease.key in paused:
            turns.memory.pause(lease)
