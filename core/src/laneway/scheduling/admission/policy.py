"""What an admission policy answers: may this job be considered now?"""

from __future__ import annotations

from typing import Protocol

from laneway.scheduling.plan_types import WaitingReason
from laneway.scheduling.room import Room
from laneway.scheduling.snapshot import Job


class AdmissionPolicy(Protocol):
    """Holds jobs back before placement is tried. Asked in the plan's order, for waiting jobs only."""

    def refusal(self, job: Job, room: Room, now_seconds: float) -> WaitingReason | None:
        """Return why the job is held back, or None to let it go on. The room shows what earlier jobs have taken."""
        ...
