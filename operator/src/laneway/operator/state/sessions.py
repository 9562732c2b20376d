"""What the nodes say about containers that hold GPUs, found by the pod that they belong to.

The kubelet decided which GPU a container got; the node's session says which. Where that differs from what the operator chose,
the session is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laneway.api.gpu_node import GPUStatus, SavedWorkStatus, SessionState, SessionStatus
from laneway.api.training_job_status import ProfileStatus
from laneway.operator.state.records.gpu_node_record import GPUNodeRecord, awaits_lane, awaits_memory
from laneway.operator.state.records.worker_pod import WorkerPod

PodName = str | tuple[str, str]
"""A pod's uid, or its namespace and name where the node could not name its uid yet."""


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


class SessionIndex:
    """All sessions of the cluster, node by node."""

    def __init__(self) -> None:
        self._on: dict[str, tuple[Hold, ...]] = {}
        self._of: dict[str, dict[PodName, tuple[Hold, ...]]] = {}
        """By node and pod."""

    def report(self, node: str, record: GPUNodeRecord | None) -> None:
        """Replace what a node says; None: it is not there any more."""
        self._on.pop(node, None)
        self._of.pop(node, None)
        if record is None:
            return
        self._on[node] = tuple(Hold(node, gpu, session) for gpu in record.gpus for session in gpu.sessions)
        there = self._of[node] = dict[PodName, tuple[Hold, ...]]()
        for hold in self._on[node]:
            pod = hold.session.pod_uid or (hold.session.namespace, hold.session.pod)
            there[pod] = (*there.get(pod, ()), hold)

    def on(self, node: str) -> tuple[Hold, ...]:
        """Return the sessions of a node."""
        return self._on.get(node, ())

    def of(self, pod: WorkerPod) -> tuple[Hold, ...]:
        """Return the sessions of a pod on its node."""
        there = self._of.get(pod.node, {})
        return there.get(pod.uid) or there.get((pod.namespace, pod.name)) or ()


def actual_gpus(pod: WorkerPod, sessions: SessionIndex) -> tuple[str, ...]:
    """Return the GPUs that the pod has by its node's word; those chosen for it while the node says nothing."""
    held = {hold.gpu.uuid for hold in sessions.of(pod)}
    return tuple(sorted(held)) or pod.gpus


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


def saved_works(pods: Iterable[WorkerPod], sessions: SessionIndex) -> list[SavedWorkStatus]:
    """Return what the pods' clients say of checkpoints: those of processes that live, where any does, as an eviction costs only
    these their work."""
    said = [
        (each, each.ended or hold.ended)
        for pod in pods
        for hold in sessions.of(pod)
        if (each := hold.session.saved_work) is not None
    ]
    return [each for each, ended in said if not ended] or [each for each, _ in said]


def turns_taken(pods: Iterable[WorkerPod], sessions: SessionIndex) -> int:
    """Return the turns that the pods' sessions took, those that ended included while the node still lists them."""
    return sum(hold.session.turns for pod in pods for hold in sessions.of(pod))


def noteworthy(pod: WorkerPod, sessions: SessionIndex) -> str:
    """Return what the node found noteworthy about the pod, such as that it outgrew its quota."""
    return "; ".join(dict.fromkeys(hold.session.message for hold in sessions.of(pod) if hold.session.message))


def without_lane(pod: WorkerPod, sessions: SessionIndex) -> str:
    """Return why the pod cannot use its GPU yet: a session of it has no lane there; empty where each has one, and once it has ended."""
    if pod.ended:
        return ""
    for hold in sessions.of(pod):
        if awaits_lane(hold.session):
            why = f": {hold.session.message}" if hold.session.message else ""
            return f"Worker {pod.rank} waits for a lane on GPU {hold.gpu.uuid} of {hold.node}{why}."
    return ""


def paused(pod: WorkerPod, sessions: SessionIndex) -> str:
    """Return, in the node's words, that an order pauses or offloads the pod; empty where none does, and once it has ended."""
    held = () if pod.ended else sessions.of(pod)
    for hold in held:
        if hold.session.state in (SessionState.PAUSED, SessionState.OFFLOADED):
            return f"Worker {pod.rank} on {hold.node} is {hold.session.message or 'paused by order'}."
    return ""


def restored(pod: WorkerPod, sessions: SessionIndex) -> str:
    """Return, in the node's words, that the pod's memory is still on the host after its order was taken back; empty where it is not."""
    held = () if pod.ended else sessions.of(pod)
    for hold in held:
        if awaits_memory(hold.session):
            return f"Worker {pod.rank} on {hold.node} is offloaded: {hold.session.message or 'it waits for GPU memory'}."
    return ""


def evicted(pod: WorkerPod, sessions: SessionIndex) -> str:
    """Return why the node stopped the pod's processes, as one CamelCase word; empty where it did not."""
    return next((hold.session.evicted for hold in sessions.of(pod) if hold.session.evicted), "")
