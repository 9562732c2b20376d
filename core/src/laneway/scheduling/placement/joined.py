"""A placement policy with ``sharing: lanes``: a job gets GPUs of its own where it can, and joins others where that is worth it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from laneway.api.training_job import PlacementMode
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.shared_speeds import SharedSpeeds, SpeedsOf
from laneway.scheduling.model.snapshot import Job, WorkerPlacement
from laneway.scheduling.placement.lanes import Lanes
from laneway.scheduling.placement.policy import ConsolidatesGangs, PlacementPolicy


@dataclass(frozen=True, slots=True)
class Joined:
    """Places a gang by the configured policy on GPUs whose shares add up to at most 100 percent, else by the policy ``lanes`` beside
    others (Muri, SIGCOMM'22, section 4)."""

    alone: PlacementPolicy
    """The configured policy. It sees only GPUs on which a share stays within 100 percent."""

    lanes: Lanes

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go; None if the gang does not fit, gains too little everywhere, or waits for the fewest nodes."""
        return self.alone.place(job, capacity.unshared()) or self.lanes.place(
            self._beside_others(job), capacity
        )

    def profile_key(self, job: Job) -> Hashable:
        """Return what either of the two policies reads."""
        return self.alone.profile_key(job), self.lanes.profile_key(job)

    def may_join(self, job: Job, others: Sequence[Job], speeds: SharedSpeeds) -> bool:
        """Whether the job gains enough beside others, and all keep their speed."""
        return self.lanes.may_join(job, others, speeds)

    def gain_ratio(self, job: Job, others: Sequence[Job], speeds_of: SpeedsOf) -> float:
        """Return what a job adds to the work of a GPU beside others; 1 is the work of a job alone."""
        return self.lanes.gain_ratio(job, others, speeds_of)

    def _beside_others(self, job: Job) -> Job:
        """Return the job as it may join others: one that waits for the fewest nodes does so there, too."""
        policy = self.alone
        if not isinstance(policy, ConsolidatesGangs) or not policy.needs_consolidation(job):
            return job
        if job.demand.mode is not PlacementMode.AUTO:
            return job
        return replace(job, demand=replace(job.demand, mode=PlacementMode.CONSOLIDATE))

    @property
    def keep_gain_ratio(self) -> float:
        """The least measured gain of a job that shares GPUs, for each of its GPUs; with less, it leaves."""
        return self.lanes.keep_gain_ratio
