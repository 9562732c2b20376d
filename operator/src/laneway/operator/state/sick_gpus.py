"""GPUs that their nodes have taken out of use, and the workers that are still on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from laneway.api.rfc3339 import parse_time
from laneway.operator.state.records.gpu_node_record import GPUNodeRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.state.sessions import SessionIndex, actual_gpus


@dataclass(frozen=True, slots=True)
class SickGPU:
    """A GPU that is not healthy."""

    uuid: str
    node: str
    reason: str
    since_seconds: float
    """By its node's word; 0, long ago, where the node does not say."""


SickGPUs = Mapping[str, SickGPU]
"""By uuid."""


def sick_gpus(nodes: Iterable[GPUNodeRecord]) -> SickGPUs:
    """Return the GPUs that their nodes report as unhealthy."""
    return MappingProxyType(
        {
            gpu.uuid: SickGPU(
                gpu.uuid,
                node.name,
                gpu.health_reason or "its node gives no reason",
                0.0 if gpu.unhealthy_since is None else parse_time(gpu.unhealthy_since),
            )
            for node in nodes
            for gpu in node.gpus
            if not gpu.healthy
        }
    )


def on_sick_gpus(
    pods: Iterable[WorkerPod], sessions: SessionIndex, sick: SickGPUs
) -> Iterator[tuple[WorkerPod, SickGPU]]:
    """Yield the workers that have, or had to their end, a GPU that is out of use; those that succeeded are done with it."""
    if not sick:
        return
    for pod in pods:
        if pod.phase != "Succeeded":
            for uuid in actual_gpus(pod, sessions):
                if uuid in sick:
                    yield pod, sick[uuid]
