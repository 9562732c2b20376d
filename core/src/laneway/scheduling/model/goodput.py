"""Goodput: throughput times statistical efficiency, at the batch size where it is highest (Pollux, OSDI'21, section 3).

Goodput is in samples per second, each worth what a sample is worth at the initial batch size. The batch size is bounded
by the memory of a replica's GPUs (``max_local_batch``); a larger one is made of several passes whose gradients are
added up before they are averaged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from laneway.scheduling.model.efficiency import Efficiency
from laneway.scheduling.model.throughput import ThroughputModel

BATCHES_TRIED = 50
"""Batch sizes compared for each placement, in geometric steps, as in Pollux: neighbours differ by a few percent, the goodput
near its maximum by far less. The largest batch of each number of passes is compared as well, because a larger one needs
another pass."""

_ROUNDING = 1e-8


class ReplicaLayout(NamedTuple):
    """The properties of a placement that determine the speed."""

    nodes: int
    replicas: int


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of the batch size, in samples."""

    max_batch: int
    """The largest batch of all replicas together, set by the user."""

    max_local_batch: int
    """The largest batch of one replica in one pass, limited by its memory."""

    min_local_batch: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.min_local_batch <= self.max_local_batch:
            raise ValueError(
                f"min_local_batch is {self.min_local_batch} and max_local_batch {self.max_local_batch}: "
                "write 1 or more, the second no smaller than the first"
            )
        if self.max_batch < self.min_local_batch:
            raise ValueError(
                f"max_batch is {self.max_batch}: write {self.min_local_batch} (min_local_batch) or more"
            )


@dataclass(frozen=True, slots=True)
class BatchChoice:
    """A batch size, and the goodput with it."""

    local_batch: int
    """Samples of a replica in one pass; 0: no batch size is within the limits."""

    accumulated_passes: int
    """Passes in a step before the last one."""

    goodput: float
    """Samples per second."""

    def batch(self, replicas: int) -> int:
        """Return the samples of a step over all replicas."""
        return self.local_batch * (self.accumulated_passes + 1) * replicas


@dataclass(frozen=True, slots=True)
class GoodputModel:
    """An elastic job's model of speed: throughput, efficiency and limits."""

    throughput: ThroughputModel
    efficiency: Efficiency
    limits: BatchLimits
    explored_replicas: int = 1
    """The most replicas that the job has run with: an allocator gives at most twice as many, because the model is untested
    beyond (Pollux, section 4.1)."""

    def __post_init__(self) -> None:
        if self.limits.max_batch < self.efficiency.initial_batch:
            raise ValueError(
                f"max_batch is {self.limits.max_batch}: write {self.efficiency.initial_batch} (initial_batch) or more"
            )

    def at(self, replicas: int, local_batch: int, accumulated_passes: int = 0, *, nodes: int = 1) -> float:
        """Return the goodput of a placement with a given batch size, in samples per second."""
        batch = replicas * local_batch * (accumulated_passes + 1)
        network_seconds = self.throughput.network_seconds(nodes, replicas)
        step_seconds = self.throughput.step_seconds(
            float(local_batch), float(accumulated_passes), network_seconds
        )
        return batch / step_seconds * self.efficiency.at(float(batch))

    def best(self, shape: ReplicaLayout) -> BatchChoice:
        """Return the batch size of the highest goodput on a placement; a goodput of 0 where none is within the limits."""
        return best_choices(self, (shape,))[0]


@lru_cache(maxsize=4096)
def best_choices(model: GoodputModel, shapes: tuple[ReplicaLayout, ...]) -> tuple[BatchChoice, ...]:
    """Return :meth:`GoodputModel.best` for each placement. A batch that does not fit one pass is divided evenly over the
    fewest passes that hold it. A single replica beyond the initial batch takes at least two passes, because the noise scale
    is estimated from the difference between passes (as in Pollux).
    """
    import numpy as np

    limits, initial_batch = model.limits, model.efficiency.initial_batch
    replicas = np.array([[float(shape.replicas)] for shape in shapes])
    network = np.array([[model.throughput.network_seconds(*shape)] for shape in shapes])
    smallest = np.maximum(initial_batch, limits.min_local_batch * replicas)
    steps = np.linspace(0.0, 1.0, BATCHES_TRIED)
    wanted = smallest * (limits.max_batch / smallest) ** steps / replicas
    full = np.ceil(wanted / limits.max_local_batch - _ROUNDING) * limits.max_local_batch
    wanted = np.hstack([wanted, np.minimum(full, np.maximum(limits.max_batch / replicas, wanted))])
    accumulated = np.maximum(np.ceil(wanted / limits.max_local_batch - _ROUNDING) - 1, 0)
    alone = (replicas == 1) & (wanted > initial_batch + _ROUNDING)
    accumulated = np.where(alone, np.maximum(accumulated, 1), accumulated)
    most_passes = np.floor(limits.max_batch / (replicas * limits.min_local_batch))  # 0: too many replicas
    accumulated = np.minimum(accumulated, np.maximum(most_passes, 1) - 1)
    room = np.floor(limits.max_batch / ((accumulated + 1) * replicas))
    local = np.minimum(
        np.ceil(wanted / (accumulated + 1) - _ROUNDING), np.minimum(room, limits.max_local_batch)
    )
    local = np.maximum(local, limits.min_local_batch)
    batch = local * (accumulated + 1) * replicas
    seconds = model.throughput.step_seconds(local, accumulated, network)
    goodput = batch / seconds * model.efficiency.at(batch)
    goodput = np.where(most_passes > 0, goodput, 0.0)
    best = goodput.argmax(axis=1)
    return tuple(
        BatchChoice(int(local[row, column]), int(accumulated[row, column]), float(goodput[row, column]))
        if goodput[row, column] > 0
        else BatchChoice(0, 0, 0.0)
        for row, column in enumerate(best)
    )


def consolidated(replicas: int, replicas_per_node: int) -> ReplicaLayout:
    """Return the placement of a number of replicas on the fewest nodes."""
    return ReplicaLayout(math.ceil(replicas / replicas_per_node), replicas)


@lru_cache(maxsize=4096)
def goodputs(model: GoodputModel, most_replicas: int, replicas_per_node: int) -> tuple[float, ...]:
    """Return the goodput with 0, 1, … ``most_replicas`` replicas on the fewest nodes: the job's speedup table."""
    shapes = tuple(consolidated(replicas, replicas_per_node) for replicas in range(1, most_replicas + 1))
    return (0.0, *(choice.goodput for choice in best_choices(model, shapes))) if shapes else (0.0,)
