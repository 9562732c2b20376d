"""`batch_size`: the batch of an elastic job's workers, with a learning rate that fits it (docs/goodput.md).

batch = batch_size(256, max_total=2048, max_local=128)
loader = DataLoader(data, batch_size=batch.local, sampler=DistributedSampler(data))
batch.scale_learning_rate(optimizer)
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from typing import Any, Optional

from laneway.client.environment import chosen_batch
from laneway.client.goodput.batch_plan import BatchPlan, plan_batch
from laneway.client.goodput.learning_rate import (
    ADASCALE,
    RULES,
    AdaScale,
    SquareRoot,
    rule_for,
    scale_steps,
)
from laneway.client.runtime import client

log = logging.getLogger("laneway.client")


class Batch:
    """The batch of this attempt, in samples."""

    def __init__(self, plan: BatchPlan) -> None:
        """Scripts call `batch_size`."""
        self._plan = plan
        self._rule: Any = None

    @property
    def local(self) -> int:
        """One worker's samples in one pass: the `batch_size` of its DataLoader."""
        return self._plan.local

    @property
    def accumulate(self) -> int:
        """The passes whose gradients a worker accumulates for a step."""
        return self._plan.passes

    @property
    def total(self) -> int:
        """The samples of all workers in a step."""
        return self._plan.total

    @property
    def gain(self) -> float:
        """How many steps of the initial batch the next step is worth; 1 before `scale_learning_rate`."""
        return 1.0 if self._rule is None else float(self._rule.gain)

    def scale_learning_rate(self, optimizer: Any, rule: Optional[str] = None) -> None:
        """Multiplies the optimizer's learning rates by the gain of the batch, during each step. The last call for an
        optimizer counts.

        With AdaScale all ranks have to step the optimizer equally often, as they do with
        DistributedDataParallel.

        Args:
            optimizer: an optimizer of PyTorch 2.0 or newer.
            rule: `adascale` or `square-root`; None for AdaScale with SGD, and the square root with all others.

        Raises:
            ValueError: there is no such rule.
        """
        chosen = rule_for(optimizer) if rule is None else rule
        if chosen not in RULES:
            raise ValueError(f"scale_learning_rate(rule={rule!r}): write {' or '.join(RULES)}")
        torch = importlib.import_module("torch")
        self._rule = AdaScale(torch, self._plan) if chosen == ADASCALE else SquareRoot(self._plan)
        scale_steps(optimizer, self._rule)

    def __repr__(self) -> str:
        return f"Batch(local={self.local}, accumulate={self.accumulate}, total={self.total})"


def batch_size(total: int, *, max_total: Optional[int] = None, max_local: Optional[int] = None) -> Batch:
    """Returns the batch of this attempt's workers.

    The number of workers is that of the process group. Before `init_process_group` it is that of the variable
    WORLD_SIZE, as the operator and torchrun set it; without both it is 1.

    Args:
        total: the samples of a step of all workers together, for which the learning rate was chosen.
        max_total: lets the batch grow up to this: to the samples that the operator chose for this attempt, else
            with the workers, each of which takes `total` samples. None keeps `total` over all rescales.
        max_local: the most samples that one worker's GPU can hold in a pass; more are done in several passes.
            With `max_total`, None means `total` samples in one pass.

    Raises:
        ValueError: a number is out of range, or there are fewer samples than workers.
    """
    workers, rank = _ranks()
    plan = plan_batch(total, workers, max_total, max_local, chosen_batch())
    if max_total is None and plan.total != total and rank == 0:
        log.warning(
            "%d samples do not divide among %d workers: a step takes %d, %d of each",
            total,
            workers,
            plan.total,
            plan.local * plan.passes,
        )
    progress = client().guard.progress
    largest_pass = total if max_total is not None and max_local is None else max_local
    progress.batch.declare(plan.workers, plan.local, plan.passes, total, max_total, largest_pass)
    progress.note_batch()
    return Batch(plan)


def _ranks() -> tuple[int, int]:
    """Returns how many ranks there are, and which one this is."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size(), distributed.get_rank()
    world_size, rank = (os.environ.get(name, "") for name in ("WORLD_SIZE", "RANK"))
    return (
        max(1, int(world_size)) if world_size.isascii() and world_size.isdigit() else 1,
        int(rank) if rank.isascii() and rank.isdigit() else 0,
    )
