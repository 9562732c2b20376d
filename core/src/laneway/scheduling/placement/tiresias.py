"""Tiresias' placement rule (Gu et al., NSDI'19, section 3.3): consolidate only the models that suffer from being spread.

Models suffer from the skew of their tensor sizes: one tensor that is a large part of the model keeps one link busy while the
others are idle. Models with a skew above the threshold wait for the fewest nodes, and prefer those of one rack, else of one zone; all
others take free GPUs anywhere, first where little is free, so that whole nodes remain for models that need them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.snapshot import Job, WorkerPlacement
from laneway.scheduling.placement.gang_layout import Layout, on_fragments
from laneway.scheduling.placement.gang_placing import (
    Choice,
    consolidated,
    nodes_by_slots,
    on_a_shared_gpu,
    place_gang,
)


@dataclass(frozen=True, slots=True)
class TiresiasPlacement:
    """Fewest nodes for skewed models, fragments for the others."""

    skew_threshold_ratio: float = 0.4
    """The largest tensor over the model's size. By their parameters, the skew of the models that the paper found to need
    consolidation is 0.62 (AlexNet) to 0.77 (VGG-11), and that of the others 0.04 (ResNet-152) to 0.15 (GoogLeNet): the
    default is about the middle between them. 1: no gang waits; 0: every gang does."""

    consolidate_unprofiled: bool = False
    """Whether a gang of unknown skew waits for the fewest nodes too. Off by default: most models tolerate being spread,
    waiting always costs, and the skew is known after the first iterations, for the next start."""

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go; None if the gang does not fit, or should wait for fewer nodes."""
        rule = consolidated if self.needs_consolidation(job) else _fragments
        return on_a_shared_gpu(job, capacity) or place_gang(job, capacity, rule)

    def profile_key(self, job: Job) -> Hashable:
        """Return whether the model is to be consolidated."""
        return self.needs_consolidation(job)

    def needs_consolidation(self, job: Job) -> bool:
        """Whether its model suffers from being spread."""
        skew_ratio = None if job.profile is None else job.profile.skew_ratio
        if skew_ratio is None:
            return self.consolidate_unprofiled
        return skew_ratio > self.skew_threshold_ratio


def _fragments(job: Job, capacity: FreeCapacity, choices: Sequence[Choice]) -> Layout | None:
    return on_fragments(job.demand.workers, nodes_by_slots(job, capacity, choices))
