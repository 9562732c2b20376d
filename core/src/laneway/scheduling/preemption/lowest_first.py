"""Preempts the last jobs in the order first, and none in vain.

From the end of the order it takes the shortest run of jobs without which the gang fits. Then each of them, the first in the
order first, is spared if the gang still fits. This is the reprieve of kube-scheduler's preemption, and equivalent to
Tiresias' pass over its queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.preemption.action_costs import ActionCosts
from laneway.scheduling.preemption.policy import Scenario

_REPRIEVED_SINGLY = 12
"""In a longer run, the jobs that hold no GPU where the gang would be placed are spared at once."""


@dataclass(frozen=True, slots=True)
class LowestFirst(ActionCosts):
    """Preempts from the end of the order, and no more than needed."""

    min_run_seconds: float = 500.0
    """The minimum run time before a job can be preempted by any other job. It is ten times what a preemption costs, 40 to 62 s
    (Tiresias, section 5; Lucid, section 2). So at most a tenth of a job's run time is lost to others, not
    counting separations of jobs that share GPUs."""

    def protected_until_seconds(self, running: Job) -> float:
        """Return when it has run for ``min_run_seconds``."""
        started = running.created_seconds if running.started_seconds is None else running.started_seconds
        return started + self.min_run_seconds

    def victims(self, candidates: Sequence[Job], scenario: Scenario) -> tuple[Job, ...] | None:
        """Return the shortest run from the end of the order, without the jobs that need not go."""
        run = shortest_run(candidates, scenario)
        if run is None:
            return None
        victims = list(run if len(run) <= _REPRIEVED_SINGLY else scenario.in_the_way(run))
        for job in reversed(victims[:-1]):
            others = [victim for victim in victims if victim is not job]
            if scenario.fits_without(others):
                victims = others
        return tuple(victims)


def shortest_run(candidates: Sequence[Job], scenario: Scenario) -> Sequence[Job] | None:
    """Return the fewest jobs from the start of a list without which the gang fits; None: it does not fit without all of them."""
    if not candidates:
        return None
    too_few, enough = 0, 1
    while not scenario.fits_without(candidates[:enough]):  # doubling: few out of many usually suffice
        if enough >= len(candidates):
            return None
        too_few, enough = enough, min(2 * enough, len(candidates))
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if scenario.fits_without(candidates[:middle]):
            enough = middle
        else:
            too_few = middle
    return candidates[:enough]
