"""How far those make way who were chosen to: of all that is enough, what costs least."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.scheduling.books import Books
from laneway.scheduling.plan_types import Depth
from laneway.scheduling.snapshot import Job, JobState
from laneway.scheduling.tenancy import kept_bytes
from laneway.scheduling.trial import Depths, Placement, Trial

_FURTHER_THAN = {
    JobState.RUNNING: (Depth.PAUSE, Depth.OFFLOAD, Depth.EVICT),
    JobState.PAUSED: (Depth.OFFLOAD, Depth.EVICT),
}


def cheapest(trial: Trial, victims: Sequence[Job], books: Books) -> tuple[Depths, Placement] | None:
    """Return how far each victim has to make way, and where the gang goes then.

    All go one step further, from the cheapest to the dearest, until that is enough; then each of them, the dearest first, goes as much
    less far as leaves it enough. None if it is never enough after all (a placement policy of another package may prefer more company
    to less).
    """
    options = {victim.key: _options(victim, books) for victim in victims}
    for step in range(max(len(each) for each in options.values())):
        depths = {key: each[min(step, len(each) - 1)] for key, each in options.items()}
        if trial.placed_without(victims, depths) is not None:
            break
    else:
        return None
    if step > 0 and len(victims) > 1:
        for victim in sorted(victims, key=lambda job: (-cost_of(job, depths[job.key], books), job.key)):
            for less_far in options[victim.key][:step]:
                fewer = {**depths, victim.key: less_far}
                if less_far is depths[victim.key] or trial.placed_without(victims, fewer) is not None:
                    depths = fewer
                    break
    placement = trial.placed_without(victims, depths)
    return None if placement is None else (depths, placement)


def cost_of(victim: Job, depth: Depth, books: Books) -> float:
    """Return what making way so far costs on each of the job's GPUs, in seconds."""
    gpus, shares = books.ledger.gpus, books.ledger.entries[victim.key].shares
    held_bytes = max((kept_bytes(victim, gpus[number], percent) for number, percent in shares), default=0)
    return books.policies.preemption.cost_seconds(victim, depth, held_bytes)


def _options(victim: Job, books: Books) -> tuple[Depth, ...]:
    """Return how far a job can make way, the cheapest first."""
    if not books.ledger.parking or not victim.parkable:
        return (Depth.EVICT,)
    further = _FURTHER_THAN.get(victim.state, (Depth.EVICT,))
    return tuple(sorted(further, key=lambda depth: cost_of(victim, depth, books)))
