"""What one job holds of the GPUs and nodes.

An allocation is *allocated* (the job runs, or starts by this cycle), *paused* (the job is paused or offloaded, and takes no
turns), *releasing* (the job is being preempted, or ends) or *pipelined* (kept for a job until others have released the GPUs).
A :class:`View` selects the ones that count.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from laneway.scheduling.gpus.views import Level, View
from laneway.scheduling.model.plan import PreemptionAction
from laneway.scheduling.model.snapshot import Job, WorkerPlacement


class AllocationStatus(Enum):
    """What becomes of an allocation."""

    ALLOCATED = "allocated"
    PAUSED = "paused"
    RELEASING = "releasing"
    PIPELINED = "pipelined"


@dataclass(slots=True)
class Allocation:
    """What one job holds."""

    job: Job
    placement: tuple[WorkerPlacement, ...]
    status: AllocationStatus
    shares: tuple[tuple[int, int], ...]
    """GPU number and percent of each GPU."""

    percent: int
    """Of all of them together."""

    on_nodes: tuple[tuple[int, int], ...] = ()
    """Node number and workers there, if their pods request anything."""

    level: Level | None = None
    """None: the job cannot be preempted."""

    action: PreemptionAction = PreemptionAction.EVICT
    """Of a releasing hold: what will be left of it."""

    @property
    def gpus(self) -> tuple[int, ...]:
        """The numbers of its GPUs."""
        return tuple(number for number, _ in self.shares)

    def counts(self, view: View) -> bool:
        """Whether it counts in a view, with its memory."""
        if self.status is AllocationStatus.PIPELINED:
            return True
        if self.status is AllocationStatus.RELEASING:
            return view.idle
        return view.counts(self.level)
