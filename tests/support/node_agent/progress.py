"""How far a job gets beside an attack, compared with the same job a moment before and after: no measure of the machine's speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from tests.support.node_agent.node import PeerProcess

ITERATION_SECONDS = 0.005
ALONE_SECONDS = 1.0


def train_together(processes: Sequence[PeerProcess], seconds: float) -> list[float]:
    """Have processes train side by side; return how many iterations each makes in a second."""
    for process in processes:
        process.start("train", seconds=seconds, iteration_seconds=ITERATION_SECONDS)
    return [len(process.finish()["iterations"]) / seconds for process in processes]


def progress_ratio(alone: Callable[[], Sequence[float]], attacked: Callable[[], Sequence[float]]) -> float:
    """Return which part of its progress alone the job makes that loses most by an attack.

    Args:
        alone: has the jobs train without the attack, and returns what each does in a second; called before and after the attack.
        attacked: the same beside the attack.
    """
    before = alone()
    during = attacked()
    after = alone()
    return min(
        2 * under / (first + second) for first, under, second in zip(before, during, after, strict=True)
    )


def undisturbed_progress_ratio(
    alone: Callable[[], Sequence[float]], attacked: Callable[[], Sequence[float]], bound: float
) -> float:
    """Return the same of an attack that can be repeated: where one round is not above the bound, the median of three.

    Other work on the machine disturbs one round; an attack that harms does so in each.
    """
    first = progress_ratio(alone, attacked)
    if first > bound:
        return first
    return median([first, progress_ratio(alone, attacked), progress_ratio(alone, attacked)])
