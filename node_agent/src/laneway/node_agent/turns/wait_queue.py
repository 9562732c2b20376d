"""Leases that wait for the turn of a lane. The queues are updated on change, so a hand-off needs no
search."""

from __future__ import annotations

from collections.abc import Iterator

from laneway.lanes.turns import SessionView
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.running_turns import RunningTurns
from laneway.node_agent.turns.service import reenters, service_on_entry
from laneway.node_agent.turns.settings import TurnSettings


class WaitQueue:
    """Waiting leases by lane.

    A lease waits while its ``view`` is set. One that may not run (``Lease.may_run``) keeps its place and is
    skipped, so changes of that flag need no notification.
    """

    def __init__(self, memory: LaneMemory, running: RunningTurns, settings: TurnSettings) -> None:
        self._memory = memory
        self._running = running
        self._settings = settings
        self._by_lane: dict[int, dict[Lease, None]] = {}

    def enter(self, lease: Lease, lane: int | None, now_seconds: float) -> None:
        """Make a lease wait for a lane, from now on or since it first requested. Without a lane it waits for
        one."""
        view = lease.view
        since_seconds = now_seconds if view is None else view.waiting_since_seconds
        if lane is not None:
            if reenters(lease, now_seconds):
                active = (each for each in self._active(lane, now_seconds) if each.key != lease.key)
                members = self._memory.members(lane)
                lease.service_seconds = service_on_entry(lease, active, members, self._settings, now_seconds)
                lease.newcomer = False
            self._by_lane.setdefault(lane, {})[lease] = None
        lease.view = lease.to_view(since_seconds)

    def leave(self, lease: Lease) -> None:
        """Remove a lease that got its turn or no longer wants one."""
        lease.view = None
        queue = self._by_lane.get(self._memory.lanes_by_key.get(lease.key, -1))
        if queue is not None:
            queue.pop(lease, None)

    def rebuild(self) -> None:
        """Rebuild all queues from the current lane table."""
        self._by_lane = {
            lane.id: {lease: None for lease in self._memory.members(lane.id) if lease.view is not None}
            for lane in self._memory.lanes
        }

    def has_runnable(self, lane: int) -> bool:
        """Return whether a lease that may run waits for a lane."""
        for lease in self._by_lane.get(lane, ()):  # noqa: SIM110 - asked at each hand-off: any() would make a generator
            if lease.view is not None and lease.may_run:
                return True
        return False

    def has(self, lane: int, key: str) -> bool:
        """Return whether a lease waits for a lane and may run."""
        if self._memory.lanes_by_key.get(key) != lane:
            return False
        lease = self._memory.lease(key)
        return lease.view is not None and lease.may_run

    def views(self, lane: int) -> list[SessionView]:
        """Return the policy's views of the leases that wait for a lane and may run."""
        leases = self._by_lane.get(lane, ())
        return [view for lease in leases if (view := lease.view) is not None and lease.may_run]

    def weights(self, lane: int, but: Lease) -> list[int]:
        """Return the weights of the leases that wait for a lane and may run, except one."""
        leases = self._by_lane.get(lane, ())
        return [
            view.weight
            for lease in leases
            if (view := lease.view) is not None and lease is not but and lease.may_run
        ]

    def choose(self, lane: int, now_seconds: float, predecessor: Lease | None = None) -> Lease | None:
        """Return the lease that the policy prefers among those that wait for a lane; None if none waits. A
        predecessor that has just left counts as one that wants the lane, but is not chosen."""
        waiting = self.views(lane)
        if len(waiting) == 1:
            return self._memory.lease(waiting[0].key)
        weights = [each.weight for each in waiting] + ([] if predecessor is None else [predecessor.weight])
        mean_weight = sum(weights) / max(1, len(weights))
        key = self._settings.policy.choose(waiting, now_seconds, mean_weight)
        return None if key is None else self._memory.lease(key)

    def _active(self, lane: int, now_seconds: float) -> Iterator[SessionView]:
        yield from self.views(lane)
        for turn in self._running.occupying(lane):
            yield turn.lease.to_view(now_seconds, turn.charge_seconds(now_seconds))
