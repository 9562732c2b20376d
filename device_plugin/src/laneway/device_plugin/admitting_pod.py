"""Finds the pod for which the kubelet calls `GetPreferredAllocation`, which does not name it.

While the kubelet admits a pod, its PodResources list already names that pod, without ids for the container in
question. Earlier pods hold their ids, rejected pods are gone, and later ones are not listed yet. So the pod
listed without ids that requests exactly this many is the one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from laneway.api.device_ids import device_id, gpu_of
from laneway.api.inventory import Inventory
from laneway.device_plugin.pod_info import PodInfo, PodKey
from laneway.device_plugin.pod_resources import Listing
from laneway.device_plugin.preferred_allocation import OperatorChoice


@dataclass(frozen=True)
class Candidates:
    """The pods that may be meant, and those that only the API server can tell about."""

    pods: tuple[PodInfo, ...]
    unknown: tuple[PodKey, ...]


def find_candidates(listing: Listing, pods: Mapping[PodKey, PodInfo], size: int) -> Candidates:
    """Find the pods with a container that requests ``size`` percent and holds none.

    If the view says that a pod has ended or started, but the kubelet is about to start it, the view has an
    earlier pod of the same name. Such a pod counts as unknown.
    """
    found, unknown = [], []
    for key, containers in listing.containers.items():
        info = pods.get(key)
        if info is None:
            unknown.append(key)
        elif any(percent == size and not containers.get(name) for name, percent in info.requests.items()):
            if info.ended or info.started:
                unknown.append(key)
            else:
                found.append(info)
    return Candidates(tuple(sorted(found, key=_age)), tuple(unknown))


def pending_pods(pods: Iterable[PodInfo], holders: Iterable[PodKey]) -> list[PodInfo]:
    """Return the pods of this node that request a share and hold none yet, the oldest first."""
    holding = set(holders)
    return sorted(
        (
            pod
            for pod in pods
            if pod.requests and not pod.ended and not pod.started and pod.key not in holding
        ),
        key=_age,
    )


def operator_choices(pods: Iterable[PodInfo], size: int) -> list[OperatorChoice]:
    """Return the operator's choices for pods that request ``size`` percent in one container."""
    return [
        OperatorChoice(f"{pod.namespace}/{pod.name}", pod.chosen_gpus)
        for pod in pods
        if pod.chosen_gpus and size in pod.requests.values()
    ]


def reserved_percent(pods: Iterable[PodInfo]) -> dict[str, int]:
    """Return the percent of each GPU that the operator chose for these pods."""
    reserved: dict[str, int] = {}
    for pod in pods:
        gpus = pod.chosen_gpus
        for uuid in gpus:
            reserved[uuid] = reserved.get(uuid, 0) + sum(pod.requests.values()) // len(gpus)
    return reserved


def free_ids(available: Iterable[str], held: Collection[str], inventory: Inventory) -> tuple[str, ...]:
    """Return the ids that a container may get.

    Where a node offers less of a GPU than before, containers may still hold ids that it offers no more. They hold as much of the GPU
    as before, so as many of the others are not free.

    Args:
        available: the ids that the kubelet takes for free.
        held: all ids that containers hold.
        inventory: the node's GPUs.
    """
    offered = {device_id(gpu.uuid, slot) for gpu in inventory.gpus for slot in range(gpu.allocatable_percent)}
    taken = Counter(gpu_of(each) for each in held if each not in offered)
    free = []
    for each in available:
        if each in held:
            continue
        if taken and taken[gpu_of(each)] > 0:
            taken[gpu_of(each)] -= 1
        else:
            free.append(each)
    return tuple(free)


def _age(pod: PodInfo) -> tuple[float, str, str]:
    return pod.created_seconds, pod.namespace, pod.name
