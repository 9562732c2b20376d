"""The protocol of admission policies: may this job be considered now?"""

from __future__ import annotations

from typing import Protocol

from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.plan import WaitingReason
from laneway.scheduling.model.snapshot import Job


class AdmissionPolicy(Protocol):
    """Holds jobs back before placement is tried. Called in the order of the jobs, for waiting jobs only."""

    def refusal(self, job: Job, capacity: FreeCapacity, now_seconds: float) -> WaitingReason | None:
        """Return why the job is held back, or None to admit it. ``room`` already excludes what earlier jobs have taken."""
        ...
