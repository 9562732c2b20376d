"""Give each of several jobs one of its sizes so that their values add up to the most within a capacity.

This is the multiple-choice knapsack. The answer is exact where the table of the dynamic program is small. In a large cluster,
a greedy algorithm takes steps along the concave envelopes of the values, the best value per size first; it misses the optimum
by at most one job's step.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

EXACT_CELLS = 20_000_000
"""Size of the dynamic program (sizes of all jobs times capacity) up to which it is solved exactly: some 50 ms."""


class Option(NamedTuple):
    """One size that a job may be given."""

    size: int
    value: float


def choose(options: Sequence[Sequence[Option]], capacity: int) -> list[int]:
    """Return for each job which of its options it gets, by index.

    Args:
        options: of each job, by rising size; the first always fits (a job's least size; 0: it waits).
        capacity: the limit of the sum of sizes.

    Raises:
        ValueError: not even the first option of every job fits.
    """
    least = sum(job[0].size for job in options)
    if least > capacity:
        raise ValueError(f"the jobs need {least} at least, and there are {capacity}")
    if sum(map(len, options)) * (capacity + 1) <= EXACT_CELLS:
        return exactly(options, capacity)
    return along_envelopes(options, capacity)


def exactly(options: Sequence[Sequence[Option]], capacity: int) -> list[int]:
    """Solve :func:`choose` by dynamic programming over the capacity."""
    import numpy as np

    best = np.zeros(capacity + 1)
    picks = []
    for job in options:
        values = np.full((len(job), capacity + 1), -np.inf)
        for index, option in enumerate(job):
            if option.size <= capacity:
                values[index, option.size :] = best[: capacity + 1 - option.size] + option.value
        pick = values.argmax(axis=0)
        picks.append(pick)
        best = values[pick, np.arange(capacity + 1)]
    left = int(best.argmax())
    chosen = []
    for job, pick in zip(reversed(options), reversed(picks), strict=True):
        chosen.append(int(pick[left]))
        left -= job[chosen[-1]].size
    return chosen[::-1]


def along_envelopes(options: Sequence[Sequence[Option]], capacity: int) -> list[int]:
    """Solve :func:`choose` greedily: the job whose next step has the most value per size goes first. A step leads to the next
    corner of a job's concave envelope; one that no longer fits is reduced to the best that does.
    """
    chosen = [0] * len(options)
    left = capacity - sum(job[0].size for job in options)
    steps = [
        (-gain, number, index)
        for number, job in enumerate(options)
        if (step := _step(job, 0, left))
        for gain, index in (step,)
    ]
    heapq.heapify(steps)
    while steps:
        _, number, index = heapq.heappop(steps)
        job = options[number]
        room = job[index].size - job[chosen[number]].size
        if room <= left:
            left -= room
            chosen[number] = index
        step = _step(job, chosen[number], left)
        if step:
            heapq.heappush(steps, (-step[0], number, step[1]))
    return chosen


def _step(job: Sequence[Option], at: int, left: int) -> tuple[float, int] | None:
    """Return the gain per size and the index of the best larger option that fits; None if none is better."""
    best: tuple[float, int] | None = None
    for index in range(at + 1, len(job)):
        room = job[index].size - job[at].size
        if room > left:
            break
        gain = (job[index].value - job[at].value) / room
        if gain > 0 and (best is None or gain >= best[0]):
            best = (gain, index)
    return best
