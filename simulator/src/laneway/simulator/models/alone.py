"""Every job gets on as in its trace, whoever else is on its GPUs: the model of Tiresias' simulator.

A malleable job gets on in proportion to its workers: nothing is known of how it scales.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneway.simulator.models.speed_model import Changes, Occupancy, Speed


@dataclass(frozen=True, slots=True)
class Alone:
    """As in the trace."""

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return the workers that each has, of those that the trace gives it."""
        return {key: Speed(workers_ratio(key, occupancy)) for key in changes.runs}


def workers_ratio(key: str, occupancy: Occupancy) -> float:
    """Return how many workers a job has, of those with which its duration was counted."""
    run = occupancy.run(key)
    return len(run.placement) / run.job.demand.workers
