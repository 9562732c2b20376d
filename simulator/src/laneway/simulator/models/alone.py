"""Every job runs as fast as in its trace, regardless of other jobs on its GPUs: the model of Tiresias' simulator.

The speed of an elastic job is proportional to its workers, or as measured, at the trace's batch size, if its training was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneway.simulator.models.speed_model import Changes, Occupancy, Speed
from laneway.simulator.training import replicas_by_node


@dataclass(frozen=True, slots=True)
class Alone:
    """Speeds of the trace."""

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return each job's speed with its current workers."""
        return {key: as_in_trace(key, occupancy, now_seconds) for key in changes.runs}


def workers_ratio(key: str, occupancy: Occupancy) -> float:
    """Return a job's current workers as a ratio of the workers for which its duration was counted."""
    run = occupancy.run(key)
    return len(run.placement) / run.job.demand.workers


def as_in_trace(key: str, occupancy: Occupancy, now_seconds: float) -> Speed:
    """Return a job's speed with its current workers and the trace's batch size."""
    run = occupancy.run(key)
    training = run.job.training
    if training is None:
        return Speed(workers_ratio(key, occupancy))
    placement = replicas_by_node(run.placement)
    local_batch, passes = training.application.batch_of(sum(placement), training.batch)
    epoch = training.epoch(run.progress_seconds(now_seconds))
    ratio = training.speed_ratio(placement, local_batch, passes, epoch)
    return Speed(ratio, None, training.epoch_ends_seconds(epoch))
