"""The CPUs of a worker's trainer container: what its job asks for, what its pod has, and what its kubelet says of a change in place.

A pod's CPUs are changed through the subresource ``resize``: its spec says what is wanted, its status what the kubelet has given
(https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from laneway.api.names import OPERATOR_FIELD_MANAGER
from laneway.api.pod_requests import amounts, pod_requests
from laneway.api.training_job import TrainingJobSpec

CPU = "cpu"
_ROUNDING_MILLIS, _ROUNDING_RATIO = 10, 0.02
"""What a container has is read back from its cgroup, whose weights are coarser than the requests that they are made from."""

_PENDING, _IN_PROGRESS = "PodResizePending", "PodResizeInProgress"


@dataclass(frozen=True, slots=True)
class RequestedCPUs:
    """What a job asks for, for each worker; in thousandths of a CPU."""

    request_millis: int
    """Of the trainer container; above 0."""

    limit_millis: int | None
    """Of the trainer container; None: it has none."""

    fewest_millis: int
    """What the trainer container may be given at least: its request, unless the spec allows less."""

    beside_millis: int
    """What the rest of the pod requests."""

    def limit_with(self, request_millis: int) -> int | None:
        """Return the limit beside another request. It keeps the pod's QoS class: the limit is above the request, or equal to it, as before."""
        if self.limit_millis is None:
            return None
        if self.limit_millis == self.request_millis:
            return request_millis
        return self.limit_millis + max(0, request_millis - self.request_millis)


@dataclass(frozen=True, slots=True)
class TrainerCPUs:
    """What the trainer container of a pod has; in thousandths of a CPU."""

    container: str
    request_millis: int
    """By the pod's spec."""

    held_millis: int
    """The most of what the spec requests, the kubelet has allocated and the container has. kube-scheduler counts the same."""

    allocated_millis: int
    """What the kubelet has allocated; where it does not say, what the container has, or else the spec."""

    infeasible: str = ""
    """Why the kubelet will never give what the spec requests, as its message says; empty where it may."""

    problem: str = ""
    """Why the kubelet has not given it yet; empty where it says nothing."""

    resized: bool = False
    """Whether the operator has changed it since the pod was made."""

    @property
    def settled(self) -> bool:
        """Whether the container has what the spec requests."""
        return self.request_millis == self.held_millis == self.allocated_millis


def requested_cpus(spec: TrainingJobSpec, trainer: Mapping[str, Any]) -> RequestedCPUs | None:
    """Return what a job asks for; None where its CPUs are never changed: the trainer requests none, or the pod as a whole has CPUs.

    Args:
        spec: the job's spec.
        trainer: the container of its template that gets the GPU.

    Raises:
        ValueError: ``minimumCPU`` does not suit the template; says what to write.
    """
    request_millis, limit_millis = _cpus(trainer.get("resources") or {})
    fewest_millis = spec.minimum_cpu_millis
    if fewest_millis is not None and not 0 < fewest_millis <= request_millis:
        has = f"requests {request_millis / 1000:g} CPUs" if request_millis else "requests no CPUs"
        raise ValueError(
            f"minimumCPU is {spec.minimum_cpu}, but the container {trainer.get('name')} {has}: write at most what it requests in "
            "template.spec.containers[].resources.requests.cpu, or leave minimumCPU out"
        )
    pod_spec = spec.template["spec"]
    if not request_millis or CPU in _both(pod_spec.get("resources") or {}):
        return None
    return RequestedCPUs(
        request_millis,
        limit_millis,
        request_millis if fewest_millis is None else fewest_millis,
        pod_requests(pod_spec).get(CPU, 0) - request_millis,
    )


def trainer_cpus(trainer: Mapping[str, Any], pod: Mapping[str, Any]) -> TrainerCPUs | None:
    """Return what the trainer container of a pod has; None where it requests no CPUs, or the pod as a whole has CPUs."""
    pod_spec, status = pod["spec"], pod.get("status") or {}
    request_millis, _ = _cpus(trainer.get("resources") or {})
    if not request_millis or CPU in _both(pod_spec.get("resources") or {}):
        return None
    containers = status.get("containerStatuses") or ()
    found: Mapping[str, Any] = next(
        (each for each in containers if each.get("name") == trainer.get("name")), {}
    )
    actual, _ = _cpus(found.get("resources") or {})
    allocated = amounts(found.get("allocatedResources") or {}).get(CPU, actual or request_millis)
    if abs(actual - allocated) <= max(_ROUNDING_MILLIS, _ROUNDING_RATIO * allocated):
        actual = allocated
    conditions = {
        each.get("type"): each for each in status.get("conditions") or () if each.get("status") == "True"
    }
    pending, in_progress = conditions.get(_PENDING) or {}, conditions.get(_IN_PROGRESS) or {}
    failed = in_progress if in_progress.get("reason") == "Error" else {}
    return TrainerCPUs(
        container=str(trainer["name"]),
        request_millis=request_millis,
        held_millis=max(request_millis, allocated, actual),
        allocated_millis=allocated,
        infeasible=_words(pending) if pending.get("reason") == "Infeasible" else "",
        problem=_words(pending or failed),
        resized=any(map(_is_resize, pod["metadata"].get("managedFields") or ())),
    )


def _is_resize(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of ``managedFields`` is of a change of CPUs by the operator that has not been replaced since."""
    return (entry.get("manager"), entry.get("subresource")) == (OPERATOR_FIELD_MANAGER, "resize")


def _words(condition: Mapping[str, Any]) -> str:
    return f"{condition.get('reason')}: {condition.get('message') or 'no message'}" if condition else ""


def _both(resources: Mapping[str, Any]) -> dict[str, Any]:
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _cpus(resources: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return the request and the limit; a limit without a request is a request of the same amount."""
    limits = {name: text for name, text in (resources.get("limits") or {}).items() if name == CPU}
    both = {name: text for name, text in _both(resources).items() if name == CPU}
    return amounts(both).get(CPU, 0), amounts(limits).get(CPU)
