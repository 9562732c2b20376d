"""Shortest remaining service first: remaining time times GPUs (Tiresias, NSDI'19, section 3.2; its "shortest-gpu").

A large gang keeps many others from running, so its GPUs count as well as its time. It needs ``Job.expected_seconds``.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.order.remaining import demanded_gpus
from laneway.scheduling.order.srtf import SRTF


@dataclass(frozen=True, slots=True)
class SRSF(SRTF):
    """Shortest remaining GPU service first."""

    def weight(self, job: Job) -> float:
        """Return the GPUs that the job takes."""
        return demanded_gpus(job)
