"""Divides the time of GPUs of several models among jobs: max-min fairness of normalized throughput (Gavel, OSDI'20, section 4.1).

A job's throughput counts relative to what it would have with the same part of every GPU model. The smallest of these, over weight and
per GPU of the job, is made as large as can be: a linear program. A second one gives what is left to those who gain most by it.
Equal jobs are one row of it, so that its size depends on the number of templates, not of jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_SLACK = 1e-9
"""The part of the smallest normalized throughput that the second program may lose to rounding."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """A job that claims time. Equal ones get the same."""

    gpus: float
    """GPUs that it holds while it runs. Above 0."""

    per_second: tuple[float, ...]
    """Its speed on each model; 0: it cannot run there. At least one is above 0."""

    weight: float = 1.0
    """Above 0."""


def max_min_allocation(
    claimants: Sequence[Claimant], gpus: Sequence[float]
) -> dict[Claimant, tuple[float, ...]]:
    """Return the part of the time that each of equal claimants gets on each model: at most 1 in all.

    Args:
        claimants: the jobs.
        gpus: the number of GPUs of each model.
    """
    nothing = (0.0,) * len(gpus)
    counts = Counter(each for each in claimants if any(normalized(each, gpus)))
    solved = _Program(counts, gpus).solved() if counts else {}
    return {each: solved.get(each, nothing) for each in claimants}


def normalized(claimant: Claimant, gpus: Sequence[float]) -> tuple[float, ...]:
    """Return a claimant's speed on each model over the one with the same part of every model, and over its weight; 0 if it can run on none of
    the GPUs."""
    equal = sum(speed * number for speed, number in zip(claimant.per_second, gpus, strict=True))
    unit = equal * claimant.weight / sum(gpus) if equal else 0.0
    return tuple(speed / unit if unit else 0.0 for speed in claimant.per_second)


class _Program:
    """The variables are GPU time: of each kind of claimants together on each model on which it can run; the last one is the smallest
    normalized throughput."""

    def __init__(self, counts: Counter[Claimant], gpus: Sequence[float]) -> None:
        self._kinds = list(counts.items())
        self._gpus = gpus
        self._normalized = [normalized(kind, gpus) for kind, _ in self._kinds]
        self._at = [
            (row, model)
            for row, speeds in enumerate(self._normalized)
            for model, speed in enumerate(speeds)
            if speed > 0
        ]

    def solved(self) -> dict[Claimant, tuple[float, ...]]:
        """Return the parts of the time."""
        gain = [self._normalized[row][model] for row, model in self._at]
        smallest = self._solution([0.0] * len(self._at), 1.0, 0.0)[-1]
        values = self._solution(gain, 0.0, smallest * (1 - _SLACK))
        parts = [[0.0] * len(self._gpus) for _ in self._kinds]
        for (row, model), value in zip(self._at, values, strict=False):
            kind, count = self._kinds[row]
            parts[row][model] = min(1.0, max(0.0, float(value)) / (kind.gpus * count))
        return {kind: tuple(part) for (kind, _), part in zip(self._kinds, parts, strict=True)}

    def _solution(self, gain: Sequence[float], of_smallest: float, at_least: float) -> Any:
        """Return the values that make the gain largest.

        Args:
            gain: of each variable but the last.
            of_smallest: the gain of the last.
            at_least: the last one's bound.
        """
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        kinds, last = len(self._kinds), len(self._at)
        rows, columns, values = [], [], []
        for column, (row, model) in enumerate(self._at):
            rows += [row, kinds + model, kinds + len(self._gpus) + row]
            columns += [column] * 3
            values += [1.0, 1.0, -self._normalized[row][model]]
        for row, (_, count) in enumerate(self._kinds):
            rows.append(kinds + len(self._gpus) + row)
            columns.append(last)
            values.append(float(count))
        shape = (2 * kinds + len(self._gpus), last + 1)
        limits = [kind.gpus * count for kind, count in self._kinds]
        result = milp(
            -np.array([*gain, of_smallest]),
            constraints=LinearConstraint(
                csr_array((values, (rows, columns)), shape=shape),
                ub=np.array([*limits, *self._gpus, *([0.0] * kinds)]),
            ),
            bounds=Bounds(np.array([0.0] * last + [at_least])),
        )
        if result.x is None:
            raise ValueError(f"the allocation has no solution: {result.message}")
        return result.x
