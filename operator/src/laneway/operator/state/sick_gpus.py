"""GPUs that their nodes have taken out of use, and the workers that are still on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from laneway.api.gpu_node import GPUStatus
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.state.sessions import actual_gpus


def on_sick_gpus(pods: Iterable[WorkerPod], state: ClusterState) -> Iterator[tuple[WorkerPod, GPUStatus]]:
    """Yield the workers that have, or had to their end, a GPU that is out of use; those that succeeded are done with it."""
    for pod in pods:
        if pod.phase != "Succeeded" and pod.node in state.gpu_nodes:
            held = actual_gpus(pod, state.sessions)
            for gpu in state.gpu_nodes[pod.node].gpus:
                if not gpu.healthy and gpu.uuid in held:
                    yield pod, gpu
