"""What is seen of a GPU's memory: readings of the driver, and the memory accounts. Both count beside what processes
report."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.node_agent.clock import Clock
from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.order_executor import OrderExecutor
from laneway.node_agent.turns.pending_releases import MemoryReading
from laneway.node_agent.turns.turn_scheduler import TurnScheduler

_CHANGE_PERCENT = 5
"""A smaller change of a framework's memory is ignored."""


class MemoryReadings:
    """Counts what is seen of the leases of one GPU."""

    def __init__(
        self,
        leases: Mapping[str, Lease],
        memory: LaneMemory,
        scheduler: TurnScheduler,
        orders: OrderExecutor,
        clock: Clock,
        recorder: EventRecorder,
    ) -> None:
        """Start without a reading.

        Args:
            leases: all leases of the GPU, also those that come later.
            memory: the lane table.
            scheduler: the turns.
            orders: told when lanes change.
            clock: when something was seen.
            recorder: told of leases that are not covered any more.
        """
        self._leases = leases
        self._memory = memory
        self._scheduler = scheduler
        self._orders = orders
        self._clock = clock
        self._recorder = recorder

    def record(self, reading: MemoryReading | None) -> None:
        """Record what the driver shows of the GPU's memory; None: it does not list the memory of processes."""
        between_turns = [lease for lease in self._leases.values() if self._had_no_turn(lease)]
        if reading is not None:
            for lease in between_turns:
                self._measure_frameworks(lease, reading.process_bytes)
        for lease in self._leases.values():
            shown_bytes = 0 if reading is None else reading.container_bytes.get(lease.key, 0)
            held_bytes = max(shown_bytes, lease.account.used_bytes)
            lease.computes = reading is not None and lease.key in reading.computing
            self._see(lease, held_bytes, between_turns=lease in between_turns)
        self._scheduler.observe_memory(reading)

    def count_accounts(self) -> None:
        """Count memory accounts that hold more than was seen of their containers so far."""
        for lease in self._leases.values():
            if lease.account.used_bytes > lease.seen.occupied_bytes:
                without_turns = self._memory.memory_lane_of(lease) is None
                self._see(lease, lease.account.used_bytes, between_turns=without_turns)

    @property
    def awaited(self) -> bool:
        """Return whether a lease waits until a reading shows that memory is free."""
        return bool(self._scheduler.memory.pending) or any(
            lease.in_table
            and lease.seen.occupied_bytes > lease.seen.resident_bytes
            and self._memory.memory_lane_of(lease) is None
            and lease not in self._scheduler.turns
            for lease in self._leases.values()
        )

    def _had_no_turn(self, lease: Lease) -> bool:
        """Return whether a lease had no turn since the last reading, and has released the memory of all turns.
        By then its allocators have returned what they had cached, unless they may keep it."""
        scheduler = self._scheduler
        held = (
            lease in scheduler.turns
            or scheduler.memory.pending.concerns(lease)
            or scheduler.memory.keeps_cache(lease)
        )
        turns = None if held else lease.counters.turns
        before, lease.turns_at_last_reading = lease.turns_at_last_reading, turns
        return turns is not None and turns == before

    def _measure_frameworks(self, lease: Lease, bytes_by_pid: Mapping[int, int]) -> None:
        """Measure the memory of a lease's frameworks: what a process has beyond its tensors between turns."""
        for session in lease.sessions:
            used_bytes = bytes_by_pid.get(session.pid)
            if used_bytes is None or not session.framework_reserve_bytes:
                continue
            seen_bytes = max(0, used_bytes - session.page.held_bytes)
            known_bytes = session.framework_seen_bytes
            if abs(seen_bytes - known_bytes) * 100 > _CHANGE_PERCENT * max(seen_bytes, known_bytes):
                session.framework_seen_bytes = seen_bytes
                self._orders.lanes_changed(self._memory.measure(lease))
                lease.last_sizes = lease.sizes or lease.last_sizes
                self._recorder.changed()

    def _see(self, lease: Lease, held_bytes: int, *, between_turns: bool) -> None:
        has_lane = self._memory.memory_lane_of(lease) is not None
        seen = lease.seen.after(
            held_bytes, self._clock.monotonic(), between_turns=between_turns, has_lane=has_lane
        )
        if seen == lease.seen and not lease.uncovered:
            lease.seen = seen
            return
        covered = not lease.uncovered
        moved = self._memory.see(lease, seen)
        if moved:
            self._orders.lanes_changed(moved)
        if covered and lease.uncovered:
            self._recorder.record_event(lease, "MemoryNotCovered", lease.uncovered)
        self._recorder.changed()
