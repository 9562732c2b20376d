"""Turns that ended before their holder released its memory: revoked, or cut off with the connection.

A pending release occupies the lane of its turn, and its memory counts, until its processes are *outside* and
their memory is gone:

- A process is outside once it has released, requested a turn, said goodbye or ended.
- Where the driver lists the memory of processes, a reading taken after that must show it: of processes that
  have ended nothing, and of the container no more than the lane table counts as its persistent memory; once
  that is on the host, no more than what stays on the GPU all the same. Elsewhere a process's word or its end
  counts.

The time for which others wait for a release is charged to its lease, as that of a turn is. Otherwise a process
could drop its connection right after its grant, and use the lane for nothing.

A release that others have waited for too long is overdue. The watchdog then stops the container's processes,
those without a session included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from laneway.lanes import LaneRules, Tenant, counted_persistent_bytes
from laneway.node_agent.turns.lease import Lease


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """What the driver shows of a GPU's memory, and who computes on it."""

    taken_seconds: float
    """CLOCK_MONOTONIC from before the driver was asked."""

    process_bytes: Mapping[int, int] = field(default_factory=dict)
    """By pid in the agent's namespace."""

    container_bytes: Mapping[str, int] = field(default_factory=dict)
    """All processes of a container together, by the container's key."""

    computing: frozenset[str] = frozenset()
    """The keys of the containers with a process that computed since the reading before; empty where the driver does not
    report that."""


@dataclass(eq=False, slots=True)
class PendingRelease:
    """The memory of one container's ended turn."""

    lease: Lease
    lane: int
    turn: int
    tenant: Tenant
    """The container as the lane table counted it when the turn ended: what it may hold until it is outside."""

    cause: str
    """Why the turn ended, as a clause without its subject."""

    patience_seconds: float
    """How long others wait for it before it is overdue."""

    pids: set[int] = field(default_factory=set)
    """The processes that held the turn when it ended."""

    inside: set[int] = field(default_factory=set)
    """Those that may be inside an iteration."""

    ended: set[int] = field(default_factory=set)
    """Those that have ended since."""

    changed_seconds: float = 0.0
    """When the last process left: a reading counts if it was taken later."""

    blocking_since_seconds: float | None = None
    """Since when a waiting lease is not granted a turn because of it."""

    def is_over(self, reading: MemoryReading | None, rules: LaneRules) -> bool:
        """Return whether its processes are outside and their memory is gone.

        Args:
            reading: the driver's last reading; None where it does not list the memory of processes.
            rules: the padding of measured sizes.
        """
        if self.inside:
            return False
        if reading is None:
            return True
        if reading.taken_seconds <= self.changed_seconds or not self.ended.isdisjoint(reading.process_bytes):
            return False
        return not self._exceeds(reading, rules)

    def charge(self, now_seconds: float) -> None:
        """Charge its lease for the time for which others have waited for it."""
        if self.blocking_since_seconds is not None:
            kept_waiting_seconds = now_seconds - self.blocking_since_seconds
            self.lease.charge(kept_waiting_seconds)
            self.lease.kept_waiting_seconds += kept_waiting_seconds
            self.lease.away_since_seconds = now_seconds

    def has_culprits(self, reading: MemoryReading | None, rules: LaneRules) -> bool:
        """Return whether its container has processes to be stopped for it: holders of the turn that are alive,
        or others that hold memory in their place, with or without a session."""
        if self.pids - self.ended:
            return True
        return (
            reading is not None
            and reading.taken_seconds > self.changed_seconds
            and self._exceeds(reading, rules)
        )

    def _exceeds(self, reading: MemoryReading, rules: LaneRules) -> bool:
        """Return whether the container holds more than it may keep after its turn."""
        return reading.container_bytes.get(self.lease.key, 0) > self._allowed_bytes(rules)

    def _allowed_bytes(self, rules: LaneRules) -> int:
        """Return what the container may keep: its persistent memory, less what it has moved to the host. No move
        takes its CUDA contexts off the GPU."""
        lease = self.lease
        if not lease.sessions or not (lease.in_table or lease.offloaded):
            return 0
        tenant = lease.tenant()
        persistent_bytes = counted_persistent_bytes(tenant, rules)
        if not lease.offloaded:
            return persistent_bytes
        frameworks_bytes = sum(session.framework_bytes for session in lease.sessions)
        contexts = replace(tenant, resident_bytes=0).profiled_as(frameworks_bytes, 0)
        return max(persistent_bytes - lease.offloaded_bytes, counted_persistent_bytes(contexts, rules))


class PendingReleases:
    """The pending releases of one GPU."""

    def __init__(self, rules: LaneRules) -> None:
        self._rules = rules
        self._pending: list[PendingRelease] = []
        self._reading: MemoryReading | None = None

    def __iter__(self) -> Iterator[PendingRelease]:
        """Iterate over the pending releases, the oldest first."""
        return iter(self._pending)

    def __bool__(self) -> bool:
        """Return whether there is one."""
        return bool(self._pending)

    def concerns(self, lease: Lease) -> bool:
        """Return whether a turn of the lease ended before its memory was released."""
        return any(each.lease is lease for each in self._pending)

    def of(self, lease: Lease, pid: int) -> PendingRelease | None:
        """Return the pending release of a process that may be inside an iteration."""
        return next((each for each in self._pending if each.lease is lease and pid in each.inside), None)

    def blocking(self, lane: int, lane_of: Mapping[str, int], but: Lease) -> list[PendingRelease]:
        """Return what occupies a lane for any other lease: as a turn does, the lane that the turn was granted
        in and the present lane of its tenant."""
        return [
            each
            for each in self._pending
            if each.lease is not but and lane in (each.lane, lane_of.get(each.lease.key))
        ]

    def add(self, release: PendingRelease, pid: int, now_seconds: float) -> None:
        """Add a process whose turn has ended although it may be inside an iteration."""
        known = next(
            (
                each
                for each in self._pending
                if (each.lease, each.lane, each.turn) == (release.lease, release.lane, release.turn)
            ),
            None,
        )
        if known is None:
            known = release
            self._pending.append(known)
        known.pids.add(pid)
        known.inside.add(pid)
        known.changed_seconds = now_seconds

    def process_left(self, lease: Lease, pid: int, now_seconds: float, *, ended: bool = False) -> bool:
        """Record that a process is outside. Return whether a release is over with that."""
        for each in self._pending:
            if each.lease is not lease or pid not in each.pids:
                continue
            if pid in each.inside or (ended and pid not in each.ended):
                each.changed_seconds = now_seconds
            each.inside.discard(pid)
            if ended:
                each.ended.add(pid)
        return bool(self._pending) and self._drop_finished(now_seconds)

    def observe(self, reading: MemoryReading | None, now_seconds: float) -> bool:
        """Record the driver's reading; None: it does not list the memory of processes. Return whether a
        release is over with that."""
        self._reading = reading
        return bool(self._pending) and self._drop_finished(now_seconds)

    def mark_overdue(self, now_seconds: float) -> list[PendingRelease]:
        """Return the releases that have just become overdue. Their lease says so until they are over."""
        overdue = [
            each
            for each in self._pending
            if not each.lease.overdue_release
            and each.has_culprits(self._reading, self._rules)
            and each.blocking_since_seconds is not None
            and now_seconds - each.blocking_since_seconds >= each.patience_seconds
        ]
        for each in overdue:
            each.lease.overdue_release = (
                f"does not release its memory after turn {each.turn} of lane {each.lane}: {each.cause}"
            )
        return overdue

    def _drop_finished(self, now_seconds: float) -> bool:
        finished = [each for each in self._pending if each.is_over(self._reading, self._rules)]
        self._pending = [each for each in self._pending if each not in finished]
        for each in finished:
            each.charge(now_seconds)
            if not self.concerns(each.lease):
                each.lease.overdue_release = ""
        return bool(finished)
