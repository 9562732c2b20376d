"""What is left of the cluster while a plan is made: the planner takes and gives back, policies only read."""

from __future__ import annotations

from laneway.scheduling.snapshot import ClusterSnapshot


class Room:
    """The working state of one plan."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.snapshot = snapshot
