"""What a preemption policy answers: who makes way, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from laneway.scheduling.plan_types import Depth
from laneway.scheduling.snapshot import Job


class Question(Protocol):
    """What would become of a gang if others made way for it."""

    def fits_without(self, victims: Sequence[Job]) -> bool:
        """Whether the gang would fit if these were gone, and no others; if it fits without some, it fits without more."""
        ...

    def in_the_way(self, victims: Sequence[Job]) -> Sequence[Job]:
        """Return those of the victims, without all of whom the gang fits, that hold GPUs where it would be placed then:
        without these alone it fits too. In the order in which they are given."""
        ...


class PreemptionPolicy(Protocol):
    """Chooses victims for a job that does not fit in what is free."""

    def protected_until_seconds(self, running: Job) -> float:
        """Return until when a running job may not be preempted, whoever asks."""
        ...

    def victims(self, candidates: Sequence[Job], gang: Question) -> tuple[Job, ...] | None:
        """Return who makes way, as few as will do; None if the gang would not fit even without all of the candidates.

        Args:
            candidates: those that may be preempted for the job, first the one that goes last in the order; may be empty.
            gang: the gang that does not fit.
        """
        ...

    def cost_seconds(self, job: Job, depth: Depth, held_bytes: int) -> float:
        """Return what it costs on each of its GPUs that a job makes way so far: of the depths that free enough the cheapest is taken.

        Args:
            job: it runs, or is paused or offloaded; then only the difference counts.
            depth: no shallower than it is now.
            held_bytes: the most that one of its workers keeps on a GPU between two iterations.
        """
        ...
