"""What a placement policy answers: which GPUs for a gang."""

from __future__ import annotations

from typing import Protocol

from laneway.scheduling.room import Room
from laneway.scheduling.snapshot import Job, WorkerPlacement


class PlacementPolicy(Protocol):
    """Finds GPUs for a whole gang, or none. Pure: it reads the room and takes nothing of it."""

    def place(self, job: Job, room: Room) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go, ordered by rank; None if the gang does not fit in what is left.

        What is returned fits: distinct GPUs, enough free percent, the safety condition, models, modes, avoided nodes.
        """
        ...
