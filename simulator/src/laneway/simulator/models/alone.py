"""Every job gets on as in its trace, whoever else is on its GPUs: the model of Tiresias' simulator.

A malleable job gets on in proportion to its workers where nothing is known of how it scales; where its training was measured, as
measured, at the batch size that the trace has.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneway.simulator.models.speed_model import Changes, Occupancy, Speed
from laneway.simulator.training import replicas_by_node


@dataclass(frozen=True, slots=True)
class Alone:
    """As in the trace."""

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return the workers that each has, of those that the trace gives it, or what was measured of so many."""
        return {key: as_in_trace(key, occupancy, now_seconds) for key in changes.runs}


def workers_ratio(key: str, occupancy: Occupancy) -> float:
    """Return how many workers a job has, of those with which its duration was counted."""
    run = occupancy.run(key)
    return len(run.placement) / run.job.demand.workers


def as_in_trace(key: str, occupancy: Occupancy, now_seconds: float) -> Speed:
    """Return how fast a job gets on with the workers that it has, and the batch size of the trace."""
    run = occupancy.run(key)
    training = run.job.training
    if training is None:
        return Speed(workers_ratio(key, occupancy))
    placement = replicas_by_node(run.placement)
    local_batch, passes = training.application.batch_of(sum(placement), training.batch)
    epoch = training.epoch(run.progress_seconds(now_seconds))
    ratio = training.speed_ratio(placement, local_batch, passes, epoch)
    return Speed(ratio, None, training.epoch_ends_seconds(epoch))
