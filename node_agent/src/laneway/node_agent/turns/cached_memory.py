"""Which leases may keep cached memory between their turns.

A framework frees its cache when it releases a turn, so that the next holder of the lane can use the memory,
and allocates it again in its next turn. That costs tens of milliseconds on a GPU, and gains nothing where no
other lease counts on this memory: where the lease is alone in its lane, or where memory covers all leases at
once.
"""

from __future__ import annotations

from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory


class CachedMemory:
    """Which leases of one GPU keep their cache."""

    def __init__(self, memory: LaneMemory) -> None:
        self._memory = memory
        self._keeping: frozenset[Lease] = frozenset()

    def may_keep(self, lease: Lease) -> bool:
        """Return whether a lease keeps its cache when it releases a turn. What its frameworks hold is measured
        first, which takes a look at its memory without a cache."""
        if lease not in self._keeping:
            return False
        for session in lease.sessions:
            if session.framework_reserve_bytes and not session.framework_seen_bytes:
                return False
        return True

    def update(self) -> frozenset[Lease]:
        """Follow a change of the lane table. Return the leases that kept their cache and may not any more."""
        leases = {key: self._memory.lease(key) for key in self._memory.lanes_by_key}
        everyone = bool(leases) and self._memory.fits(next(iter(leases.values())), leases.values())
        keeping = frozenset(
            leases[key]
            for lane in self._memory.lanes
            for key in lane.tenants
            if (everyone or len(lane.tenants) == 1) and not leases[key].uncovered
        )
        lost, self._keeping = self._keeping - keeping, keeping
        return lost
