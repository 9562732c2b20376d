"""The running turns of one GPU, and the lanes that they occupy.

Invariants:

- A lane has at most one turn, and turns of a lane have ascending numbers.
- A turn occupies the lane that it was granted in and the present lane of its tenant. These differ only after a
  change of the lane table (:attr:`RunningTurns.stale`).
"""

from __future__ import annotations

from collections.abc import Sequence

from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.turn import Turn


class RunningTurns:
    """The turns of one GPU, by lease and by lane."""

    def __init__(self, memory: LaneMemory) -> None:
        self.by_lease: dict[Lease, Turn] = {}
        self.in_lane: dict[int, Turn] = {}
        """The same turns, by the lane in which each was granted."""
        self.stale = False
        """Some turn belongs to an earlier lane table, or a release is pending: it may occupy two lanes, and
        memory has to be counted."""
        self._memory = memory
        self._numbers: dict[int, int] = {}

    def next_number(self, lane: int) -> int:
        """Return the number of a lane's next turn, which no other turn gets."""
        number = self._numbers[lane] = self._numbers.get(lane, 0) + 1
        return number

    def use_number(self, lane: int, number: int) -> None:
        """Record that a successor has begun the turn of this number on its own."""
        self._numbers[lane] = max(self._numbers.get(lane, 0), number)

    def add(self, turn: Turn) -> None:
        """Add a turn that begins."""
        self.by_lease[turn.lease] = self.in_lane[turn.lane] = turn

    def remove(self, turn: Turn) -> None:
        """Remove a turn that ends."""
        del self.by_lease[turn.lease]
        del self.in_lane[turn.lane]

    def occupying(self, lane: int) -> Sequence[Turn]:
        """Return the turns that occupy a lane."""
        if not self.stale:
            turn = self.in_lane.get(lane)
            return () if turn is None else (turn,)
        return [
            turn
            for turn in self.by_lease.values()
            if turn.lane == lane or self._memory.lane_of(turn.lease) == lane
        ]

    def is_current(self, turn: Turn) -> bool:
        """Return whether a turn agrees with the lane table: its lease is in the turn's lane, and no other."""
        lane = self._memory.lane_of(turn.lease)
        if lane != turn.lane or turn.lease.uncovered:
            return False
        return all(
            other is turn or self._memory.lane_of(other.lease) != lane for other in self.by_lease.values()
        )

    def refresh(self, *, unsettled: bool) -> None:
        """Find out whether turns are stale.

        Args:
            unsettled: a release is pending, or a successor has begun that no release has confirmed.
        """
        self.in_lane = {turn.lane: turn for turn in self.by_lease.values()}
        self.stale = unsettled or not all(self.is_current(turn) for turn in self.by_lease.values())
