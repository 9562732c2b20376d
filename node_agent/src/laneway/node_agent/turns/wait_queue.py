"""Leases that wait for the turn of a lane. The queues are updated on change, so a hand-off needs no
search."""

from __future__ import annotations

from laneway.lanes.turns import SessionView
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory


class WaitQueue:
    """Waiting leases by lane.

    A lease waits while its ``view`` is set. One that may not run (``Lease.may_run``) keeps its place and is
    skipped, so changes of that flag need no notification.
    """

    def __init__(self, memory: LaneMemory) -> None:
        self._memory = memory
        self._by_lane: dict[int, dict[Lease, None]] = {}

    def enter(self, lease: Lease) -> None:
        """Add a lease whose view was set."""
        lane = self._memory.lane_of(lease)
        if lane is not None:
            self._by_lane.setdefault(lane, {})[lease] = None

    def leave(self, lease: Lease) -> None:
        """Remove a lease that got its turn or no longer wants one."""
        lease.view = None
        lane = self._memory.lane_of(lease)
        if lane in self._by_lane:
            self._by_lane[lane].pop(lease, None)

    def rebuild(self) -> None:
        """Rebuild all queues from the current lane table."""
        self._by_lane = {
            lane.id: {lease: None for lease in self._memory.members(lane.id) if lease.view is not None}
            for lane in self._memory.lanes
        }

    def has_runnable(self, lane: int) -> bool:
        """Return whether a lease that may run waits for a lane."""
        for lease in self._by_lane.get(lane, ()):  # noqa: SIM110 - asked twice a hand-off: any() would make a generator each time
            if lease.view is not None and lease.may_run:
                return True
        return False

    def views(self, lane: int) -> list[SessionView]:
        """Return the policy's views of the leases that wait for a lane and may run."""
        leases = self._by_lane.get(lane, ())
        return [lease.view for lease in leases if lease.view is not None and lease.may_run]
