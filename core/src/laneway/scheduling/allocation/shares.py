"""The proportional share: the same fraction of a node's CPUs and memory as of its GPUs. Schedulers that consider only GPUs
give exactly this. Under Synergy's policies no gang does worse.
"""

from __future__ import annotations

from laneway.scheduling.allocation.policy import MEBIBYTE, NodeCapacity, PlacedWorker
from laneway.scheduling.model.plan import WorkerAllotment
from laneway.scheduling.model.sensitivity import Sensitivity


def proportional_share(worker: PlacedWorker, node: NodeCapacity) -> WorkerAllotment:
    """Return a worker's share, rounded down so that all shares of a node together fit."""
    memory_mebibytes = node.memory_bytes // MEBIBYTE * worker.gpu_percent // node.gpu_percent
    return WorkerAllotment(
        worker.worker, node.cpu_millis * worker.gpu_percent // node.gpu_percent, memory_mebibytes * MEBIBYTE
    )


def throughput_ratio(
    sensitivity: Sensitivity, workers: tuple[PlacedWorker, ...], allotments: tuple[WorkerAllotment, ...]
) -> float:
    """Return a gang's throughput over its best one: that of its slowest worker, for which all others wait."""
    return min(
        sensitivity.ratio(
            100 * has.cpu_millis / worker.gpu_percent, 100 * has.memory_bytes / worker.gpu_percent
        )
        for worker, has in zip(workers, allotments, strict=True)
    )
