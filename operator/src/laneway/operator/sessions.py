"""What the nodes say about containers that hold GPUs, found by the pod that they belong to.

The kubelet decided which GPU a container got; the node's session says which. Where that differs from what the operator chose,
the session is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from laneway.api.gpu_node import GPUStatus, SessionState, SessionStatus
from laneway.api.training_job import ProfileStatus
from laneway.operator.records.gpu_node_record import GPUNodeRecord
from laneway.operator.records.worker_pod import WorkerPod


@dataclass(frozen=True, slots=True)
class Hold:
    """One container's session on one GPU."""

    node: str
    gpu: GPUStatus
    session: SessionStatus

    @property
    def ended(self) -> bool:
        """Whether the container gave the GPU back."""
        return self.session.state == SessionState.ENDED


@dataclass(frozen=True, slots=True)
class SessionIndex:
    """All sessions of the cluster."""

    holds: tuple[Hold, ...]
    _by_uid: Mapping[str, tuple[Hold, ...]]
    _by_name: Mapping[tuple[str, str], tuple[Hold, ...]]

    def of(self, pod: WorkerPod) -> tuple[Hold, ...]:
        """Return the sessions of a pod. One whose pod the node could not name by uid yet is found by the pod's name."""
        return self._by_uid.get(pod.uid, ()) or self._by_name.get((pod.namespace, pod.name), ())


def index_sessions(nodes: Iterable[GPUNodeRecord]) -> SessionIndex:
    """Return the sessions of all nodes."""
    holds = tuple(
        Hold(node.name, gpu, session) for node in nodes for gpu in node.gpus for session in gpu.sessions
    )
    by_uid: dict[str, list[Hold]] = {}
    by_name: dict[tuple[str, str], list[Hold]] = {}
    for hold in holds:
        session = hold.session
        if session.pod_uid:
            by_uid.setdefault(session.pod_uid, []).append(hold)
        else:
            by_name.setdefault((session.namespace, session.pod), []).append(hold)
    return SessionIndex(
        holds,
        MappingProxyType({uid: tuple(each) for uid, each in by_uid.items()}),
        MappingProxyType({name: tuple(each) for name, each in by_name.items()}),
    )


def actual_gpus(pod: WorkerPod, sessions: SessionIndex) -> tuple[str, ...]:
    """Return the GPUs that the pod has by its node's word; those chosen for it while the node says nothing."""
    held = tuple(sorted(hold.gpu.uuid for hold in sessions.of(pod) if hold.node == pod.node))
    return held or pod.gpus


def measured_profile(pods: Iterable[WorkerPod], sessions: SessionIndex) -> ProfileStatus | None:
    """Return what was measured of the gang's iterations: of each figure the largest over the workers."""
    measured = [hold.session for pod in pods for hold in sessions.of(pod) if hold.session.profiled]
    if not measured:
        return None
    slowest = max(measured, key=lambda each: each.iteration_microseconds)
    return ProfileStatus(
        persistent_bytes=max(each.persistent_bytes for each in measured),
        ephemeral_bytes=max(each.ephemeral_bytes for each in measured),
        framework_bytes=max(each.framework_bytes for each in measured),
        iteration_microseconds=slowest.iteration_microseconds,
        iteration_spread_microseconds=slowest.iteration_spread_microseconds,
        data_microseconds=slowest.data_microseconds,
        iterations=max(each.iterations for each in measured),
        model_bytes=max(each.model_bytes for each in measured),
        largest_tensor_bytes=max(each.largest_tensor_bytes for each in measured),
    )


def turns_taken(pods: Iterable[WorkerPod], sessions: SessionIndex) -> int:
    """Return the turns that the pods' sessions took, those that ended included while the node still lists them."""
    return sum(hold.session.turns for pod in pods for hold in sessions.of(pod))


def noteworthy(pod: WorkerPod, sessions: SessionIndex) -> str:
    """Return what the node found noteworthy about the pod, such as that it outgrew its quota."""
    return "; ".join(dict.fromkeys(hold.session.message for hold in sessions.of(pod) if hold.session.message))


def evicted(pod: WorkerPod, sessions: SessionIndex) -> str:
    """Return why the node stopped the pod's processes, as one CamelCase word; empty where it did not."""
    return next((hold.session.evicted for hold in sessions.of(pod) if hold.session.evicted), "")
