"""Preempts the jobs that lose least.

A preemption costs the GPU time in which the victim's workers save a checkpoint, start again and load it: its GPUs times a
time that hardly depends on the job. So one small sufficient victim is better than many. The order still comes first: victims
come from the lowest sufficient queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laneway.scheduling.model.plan import PreemptionAction
from laneway.scheduling.model.snapshot import Job, held_gpus
from laneway.scheduling.preemption.action_costs import ActionCosts
from laneway.scheduling.preemption.lowest_first import LowestFirst
from laneway.scheduling.preemption.policy import Scenario

_TRIED_ALONE = 8
"""The number of cheapest candidates that are tried alone."""


@dataclass(frozen=True, slots=True)
class LeastLost(ActionCosts):
    """Preempts the cheapest victim that is enough alone; else the last in the order, sparing the costliest first."""

    min_run_seconds: float = 500.0
    """The minimum run time before a job can be preempted by any other job. It is ten times what a preemption costs, 40 to 62 s
    (Tiresias, section 5; Lucid, section 2). So at most a tenth of a job's run time is lost to others, not
    counting separations of jobs that share GPUs."""

    def protected_until_seconds(self, running: Job) -> float:
        """Return when it has run for ``min_run_seconds``."""
        return LowestFirst(min_run_seconds=self.min_run_seconds).protected_until_seconds(running)

    def victims(self, candidates: Sequence[Job], scenario: Scenario) -> tuple[Job, ...] | None:
        """Return the cheapest single victim, or few that lose little together."""
        cheapest = sorted(range(len(candidates)), key=lambda at: (self.lost_gpu_seconds(candidates[at]), at))
        for at in cheapest[:_TRIED_ALONE]:
            if scenario.fits_without([candidates[at]]):
                return (candidates[at],)
        victims = LowestFirst().victims(candidates, scenario)
        if victims is None:
            return None
        kept = list(victims)
        for job in sorted(victims, key=lambda job: (-self.lost_gpu_seconds(job), job.key)):
            others = [victim for victim in kept if victim is not job]
            if others and scenario.fits_without(others):
                kept = others
        return tuple(kept)

    def lost_gpu_seconds(self, job: Job) -> float:
        """Return the GPU time that evicting a job costs."""
        gpus = held_gpus(job.placement)
        return gpus * self.cost_seconds(job, PreemptionAction.EVICT, held_bytes=0)
