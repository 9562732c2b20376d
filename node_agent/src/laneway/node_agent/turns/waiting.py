"""Who waits for the turn of which lane, kept as it changes: at a hand-off nobody has to be looked for."""

from __future__ import annotations

from laneway.lanes.turns import SessionView
from laneway.node_agent.turns.hold import Hold
from laneway.node_agent.turns.memory import LaneMemory


class Waiting:
    """The holds that wait, by their lanes.

    A hold waits as long as its ``view`` is set. One that may not run (``Hold.may_run``) keeps its place and is passed over, so
    whoever changes that need not tell.
    """

    def __init__(self, memory: LaneMemory) -> None:
        self._memory = memory
        self._lines: dict[int, dict[Hold, None]] = {}

    def enter(self, hold: Hold) -> None:
        """Take in a hold whose view was set."""
        lane = self._memory.lane_of(hold)
        if lane is not None:
            self._lines.setdefault(lane, {})[hold] = None

    def leave(self, hold: Hold) -> None:
        """Let a hold go that got its turn, or does not want one any more."""
        hold.view = None
        lane = self._memory.lane_of(hold)
        if lane in self._lines:
            self._lines[lane].pop(hold, None)

    def follow(self) -> None:
        """Put all into the lanes of the table as it is now."""
        self._lines = {
            lane.id: {hold: None for hold in self._memory.members(lane.id) if hold.view is not None}
            for lane in self._memory.lanes
        }

    def anybody(self, lane: int) -> bool:
        """Return whether somebody waits for a lane and may run."""
        for hold in self._lines.get(lane, ()):  # noqa: SIM110 - asked twice a hand-off: any() would make a generator each time
            if hold.view is not None and hold.may_run:
                return True
        return False

    def views(self, lane: int) -> list[SessionView]:
        """Return what a policy sees of those who wait for a lane and may run."""
        line = self._lines.get(lane, ())
        return [hold.view for hold in line if hold.view is not None and hold.may_run]
