"""How a step's samples are divided among the workers: pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class BatchPlan:
    """The batch of this attempt, in samples."""

    initial: int
    """Of all workers, for which the script chose its learning rate."""
    workers: int
    local: int
    """Of one worker in one pass: the `batch_size` of its DataLoader."""
    passes: int
    """Backward passes whose gradients are accumulated for a step."""

    @property
    def total(self) -> int:
        """Of all workers in one step."""
        return self.workers * self.local * self.passes


def plan_batch(
    initial: int,
    workers: int,
    max_total: Optional[int] = None,
    max_local: Optional[int] = None,
    chosen: Optional[int] = None,
) -> BatchPlan:
    """Returns how a batch is divided.

    Without `max_total` the batch stays what it is. With it, the batch is the chosen one; else each worker takes
    as many samples as one worker alone would, until `max_total` is reached. A part larger than `max_local` is
    done in several passes; without `max_local` no worker takes more than `initial` samples, because the script
    may not know of passes. Where the batch does not divide, the nearest one is used that does; it is never above
    `max_total`.

    Raises:
        ValueError: a number is out of range, or there are fewer samples than workers.
    """
    for name, number in (("total", initial), ("max_total", max_total), ("max_local", max_local)):
        if number is not None and number < 1:
            raise ValueError(f"batch_size({name}={number}): write 1 or more")
    if max_total is not None and max_total < initial:
        raise ValueError(f"batch_size({initial}, max_total={max_total}): write {initial} or more")
    wanted = _wanted(initial, workers, max_total, max_local, chosen)
    if wanted < workers:
        raise ValueError(
            f"batch_size({initial}): {workers} workers cannot share {wanted} samples. Raise the batch to {workers} or more, "
            f"or the job's maxWorkers must be {wanted} or less"
        )
    passes = math.ceil(wanted / workers / max_local) if max_local else 1
    exact = wanted / workers / passes
    local = max(1, math.floor(exact) if max_total is not None else math.floor(exact + 0.5))
    return BatchPlan(initial, workers, min(local, max_local or local), passes)


def _wanted(
    initial: int, workers: int, max_total: Optional[int], max_local: Optional[int], chosen: Optional[int]
) -> int:
    """Returns the samples of all workers, before they are divided."""
    if max_total is None:
        return initial
    if chosen is None:
        return min(max_total, initial * workers)
    most = max_total if max_local else min(max_total, initial * workers)
    return min(most, max(chosen, initial, workers))
