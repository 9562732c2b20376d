"""Jobs that share GPUs in lockstep: all jobs of a GPU take the time of the group's iteration.

That is Muri's model (SIGCOMM'22, section 4.1; ``calc_iteration_time`` in its ``simulator/matching.py``): at each step every job is at
another resource, and a step lasts as long as its longest stage. Muri chooses the best order of the jobs. Its testbed took longer than
that, by a ratio for each size of a group (``itertime_overhead_list`` in ``simulator/jobs.py``). A short iteration beside a long one is
slowed a lot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

from laneway.scheduling.model.interference import Load
from laneway.scheduling.model.snapshot import StageSeconds
from laneway.simulator.models.lanes import speeds_on_gpus
from laneway.simulator.models.speed_model import Changes, Occupancy, Speed

OVERHEAD_RATIOS = (1.0, 1.33 / 1.015, 1.5 / 1.015, 1.37 / 1.015)
"""How much longer a group's iteration takes than Muri's model says, by its number of jobs. Larger groups count as the largest here."""

_RESOURCES = 4
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Lockstep:
    """Speeds by Muri's model."""

    overhead: bool = True
    """Whether a group's iteration takes longer, as on Muri's testbed."""

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return the speeds of all jobs on the changed GPUs."""
        return speeds_on_gpus(self, changes, occupancy)

    def speed_ratios(self, loads: Sequence[Load]) -> tuple[float, ...]:
        """Return the speed of each of the jobs that share a GPU; 1 is its speed alone."""
        if len(loads) < 2:
            return (1.0,) * len(loads)
        seconds = _group_seconds(tuple(sorted((load.stages, load.iteration_seconds) for load in loads)))
        if self.overhead:
            seconds *= OVERHEAD_RATIOS[min(len(loads), len(OVERHEAD_RATIOS)) - 1]
        return tuple(load.iteration_seconds / seconds for load in loads)


class _Stages(NamedTuple):
    """One job's iteration, in seconds."""

    before: float
    """Reading and preparing: it may span two steps."""

    gpu: float
    network: float


@lru_cache(maxsize=65536)
def _group_seconds(loads: tuple[tuple[StageSeconds, float], ...]) -> float:
    """Return the time of the group's iteration in its best order, without overhead; never less than the longest alone."""
    longest = max(iteration_seconds for _, iteration_seconds in loads)
    jobs = [_Stages(each.storage + each.cpu, each.gpu, each.network) for each, _ in loads]
    best = min(_round_seconds(order) for order in set(permutations(jobs)))
    if len(jobs) == 2:
        one, other = jobs
        best = min(
            best, max(one.before, other.gpu + other.network) + max(other.before, one.gpu + one.network)
        )
    return max(longest, best)


def _round_seconds(order: Sequence[_Stages]) -> float:
    """Return the time of a round of steps, once rounds take equally long. At each step one job computes, the next one is on the network,
    and a third one ends what it has prepared since two steps before."""
    steps = max(_RESOURCES, len(order))
    ends = [0.0]
    for step in range(_ROUNDS * steps):
        ready = ends[-1]
        for later, seconds, since in ((1, "network", step), (2, "gpu", step), (3, "before", step - 1)):
            job = (step + later) % steps
            if job < len(order) and since >= 0:
                ready = max(ready, ends[since] + getattr(order[job], seconds))
        ends.append(ready)
    return ends[-1] - ends[-1 - steps]
