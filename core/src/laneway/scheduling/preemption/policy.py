"""The protocol of preemption policies: which jobs are preempted, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from laneway.scheduling.model.plan import PreemptionAction
from laneway.scheduling.model.snapshot import Job


class Scenario(Protocol):
    """Tells whether a gang would fit if others were preempted for it."""

    def fits_without(self, victims: Sequence[Job]) -> bool:
        """Whether the gang fits if exactly these jobs are gone; if it fits without some, it fits without more."""
        ...

    def in_the_way(self, victims: Sequence[Job]) -> Sequence[Job]:
        """Return the victims that hold GPUs on which the gang would be placed if all victims were gone, in the given order.
        Without these alone it fits too."""
        ...


class PreemptionPolicy(Protocol):
    """Chooses victims for a job that does not fit the free capacity."""

    def protected_until_seconds(self, running: Job) -> float:
        """Return until when a running job may not be preempted by any job."""
        ...

    def victims(self, candidates: Sequence[Job], scenario: Scenario) -> tuple[Job, ...] | None:
        """Return as few victims as suffice; None if the gang would not fit even without all candidates.

        Args:
            candidates: the jobs that may be preempted for the job, the last in the order first; may be empty.
            scenario: tells whether the gang fits without some of them.
        """
        ...

    def cost_seconds(
        self,
        job: Job,
        action: PreemptionAction,
        held_bytes: int,
        moved_seconds_per_gib: float | None = None,
    ) -> float:
        """Return what an action costs on each of the job's GPUs. The cheapest sufficient action is taken.

        Args:
            job: it runs, or is paused or offloaded; then only the difference counts.
            action: no shallower than it is now.
            held_bytes: the most that one of its workers keeps on a GPU between two iterations.
            moved_seconds_per_gib: the time to move a GiB to the host and back that the slowest of its GPUs showed; None: not measured.
        """
        ...
