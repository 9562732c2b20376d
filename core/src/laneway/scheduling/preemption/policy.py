"""What a preemption policy answers: who makes way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from laneway.scheduling.snapshot import Job


class PreemptionPolicy(Protocol):
    """Chooses victims for a job that does not fit in what is free."""

    def protected_until_seconds(self, running: Job) -> float:
        """Return until when a running job may not be preempted, whoever asks."""
        ...

    def victims(
        self, candidates: Sequence[Job], fits_without: Callable[[Sequence[Job]], bool]
    ) -> tuple[Job, ...] | None:
        """Return who makes way, as few as will do; None if the gang would not fit even without all of the candidates.

        Args:
            candidates: those that may be preempted for the job, first the one that goes last in the order; may be empty.
            fits_without: whether the gang would fit if these were gone; if it fits without some, it fits without more.
        """
        ...
