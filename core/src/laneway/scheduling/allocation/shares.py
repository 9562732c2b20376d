"""The proportional share: of a node's CPUs and memory, the part that a worker has of its GPUs.

It is what schedulers that look at GPUs alone give, and what nobody may do worse than under Synergy's policies.
"""

from __future__ import annotations

from laneway.scheduling.allocation.policy import MEBIBYTE, NodeCapacity, PlacedWorker
from laneway.scheduling.model.plan import WorkerAllotment
from laneway.scheduling.model.sensitivity import Sensitivity


def proportional_share(worker: PlacedWorker, node: NodeCapacity) -> WorkerAllotment:
    """Return a worker's part, rounded down, so that all parts of a node together fit."""
    memory_mebibytes = node.memory_bytes // MEBIBYTE * worker.gpu_percent // node.gpu_percent
    return WorkerAllotment(
        worker.worker, node.cpu_millis * worker.gpu_percent // node.gpu_percent, memory_mebibytes * MEBIBYTE
    )


def throughput_ratio(
    sensitivity: Sensitivity, workers: tuple[PlacedWorker, ...], allotments: tuple[WorkerAllotment, ...]
) -> float:
    """Return the part of its best throughput that a gang reaches: its slowest worker's, because all wait for it."""
    return min(
        sensitivity.ratio(
            100 * has.cpu_millis / worker.gpu_percent, 100 * has.memory_bytes / worker.gpu_percent
        )
        for worker, has in zip(workers, allotments, strict=True)
    )
