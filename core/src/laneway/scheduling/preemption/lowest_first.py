"""The last jobs in the order are preempted first, and none in vain.

Going up from the last in the order, the shortest run of jobs is taken without which the gang fits; then each of them,
the first in the order first, is let off if the gang fits although it stays. This is the reprieve of kube-scheduler's
preemption, and what Tiresias' walk over its queues comes to.
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
    """Lowest in the order first, and no more than needed."""

    min_run_seconds: float = 60.0
    """How long a job runs at least before it can be preempted. A preemption costs 40 to 62 s (Tiresias, section 5;
    Lucid, section 2): shorter runs would spend more time on checkpoints and starts than on training."""

    def protected_until_seconds(self, running: Job) -> float:
        """Return when it has run for ``min_run_seconds``."""
        started = running.created_seconds if running.started_seconds is None else running.started_seconds
        return started + self.min_run_seconds

    def victims(self, candidates: Sequence[Job], scenario: Scenario) -> tuple[Job, ...] | None:
        """Return the shortest run from the end of the order, without the jobs that need not go."""
        run = _shortest_run(candidates, scenario)
        if run is None:
            return None
        victims = list(run if len(run) <= _REPRIEVED_SINGLY else scenario.in_the_way(run))
        for job in reversed(victims[:-1]):
            others = [victim for victim in victims if victim is not job]
            if scenario.fits_without(others):
                victims = others
        return tuple(victims)


def _shortest_run(candidates: Sequence[Job], scenario: Scenario) -> Sequence[Job] | None:
    if not candidates:
        return None
    too_few, enough = 0, 1
    while not scenario.fits_without(
        candidates[:enough]
    ):  # doubling, because few out of many will do as a rule
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
