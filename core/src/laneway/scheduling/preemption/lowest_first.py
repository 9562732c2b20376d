"""The last in the order make way first, and nobody in vain.

Going up from the last in the order, the shortest run of jobs is taken without which the gang fits; then each of them,
the first in the order first, is let off if the gang fits although it stays. This is the reprieve of kube-scheduler's
preemption, and what Tiresias' walk over its queues comes to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laneway.scheduling.preemption.depth_costs import DepthCosts
from laneway.scheduling.preemption.policy import Question
from laneway.scheduling.snapshot import Job

_REPRIEVED_SINGLY = 12
"""Of a longer run, those are let off at once that hold no GPU where the gang would be placed."""


@dataclass(frozen=True, slots=True)
class LowestFirst(DepthCosts):
    """Lowest in the order first, and no more than needed."""

    min_run_seconds: float = 60.0
    """How long a job runs at least before it can be preempted. A preemption costs 40 to 62 s (Tiresias, section 5;
    Lucid, section 2): shorter runs would spend more time on checkpoints and starts than on training."""

    def protected_until_seconds(self, running: Job) -> float:
        """Return when it has run for ``min_run_seconds``."""
        started = running.created_seconds if running.started_seconds is None else running.started_seconds
        return started + self.min_run_seconds

    def victims(self, candidates: Sequence[Job], gang: Question) -> tuple[Job, ...] | None:
        """Return the shortest run from the end of the order, less those that need not go."""
        run = _shortest_run(candidates, gang)
        if run is None:
            return None
        victims = list(run if len(run) <= _REPRIEVED_SINGLY else gang.in_the_way(run))
        for job in reversed(victims[:-1]):
            others = [victim for victim in victims if victim is not job]
            if gang.fits_without(others):
                victims = others
        return tuple(victims)


def _shortest_run(candidates: Sequence[Job], gang: Question) -> Sequence[Job] | None:
    if not candidates:
        return None
    too_few, enough = 0, 1
    while not gang.fits_without(candidates[:enough]):  # doubling, because few out of many will do as a rule
        if enough >= len(candidates):
            return None
        too_few, enough = enough, min(2 * enough, len(candidates))
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if gang.fits_without(candidates[:middle]):
            enough = middle
        else:
            too_few = middle
    return candidates[:enough]
