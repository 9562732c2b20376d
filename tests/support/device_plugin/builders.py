"""Builders of what the device plugin's tests need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from laneway.api import names
from laneway.api.device_ids import device_id
from laneway.api.inventory import Inventory, InventoryGPU
from laneway.device_plugin.pod_info import PodInfo, pod_info
from laneway.device_plugin.pod_resources import Listing

NODE = "n1"


def gpu(index: int, *, offer: int = 100, healthy: bool = True, **more: Any) -> InventoryGPU:
    """GPU number ``index``, called ``GPU-<index>``."""
    fields: dict[str, Any] = {
        "uuid": f"GPU-{index}",
        "index": index,
        "model": "Simulated",
        "memory_bytes": 16 << 30,
        "reserve_bytes": 300 << 20,
        "allocatable_percent": offer,
        "healthy": healthy,
        "health_reason": "" if healthy else "XID 79: fallen off the bus",
        "simulated": True,
    }
    return InventoryGPU(**(fields | more))


def inventory(*gpus: InventoryGPU) -> Inventory:
    """The inventory of the node with these GPUs."""
    return Inventory(node=NODE, gpus=gpus)


def ids(index: int, slots: Iterable[int]) -> tuple[str, ...]:
    """Ids of GPU number ``index``."""
    return tuple(device_id(f"GPU-{index}", slot) for slot in slots)


def free(percents: Mapping[int, int]) -> tuple[str, ...]:
    """The ids on offer when so many percent of each GPU are free, the highest slots."""
    return tuple(one for index, percent in percents.items() for one in ids(index, range(100 - percent, 100)))


def raw_pod(name: str, *, asks: Mapping[str, int] | None = None, **more: Any) -> dict[str, Any]:
    """A pod as the API server shows it. ``asks`` is percent by container, ``first`` the same of init containers."""
    containers, first = (
        [
            {
                "name": container,
                "image": f"image-of-{container}",
                "resources": {"limits": {"laneway.dev/gpu-percent": str(percent)}} if percent else {},
            }
            for container, percent in asked.items()
        ]
        for asked in (asks or {"trainer": 50}, more.get("first", {}))
    )
    return {
        "metadata": {
            "name": name,
            "namespace": more.get("namespace", "default"),
            "uid": more.get("uid", f"uid-{name}"),
            "creationTimestamp": more.get("created", "2026-01-01T00:00:00Z"),
            "labels": more.get("labels", {}),
            "annotations": more.get("annotations", {}),
            "ownerReferences": more.get("owners", []),
            "resourceVersion": more.get("version", "1"),
            **({"deletionTimestamp": "2026-01-01T00:01:00Z"} if more.get("deleting") else {}),
        },
        "spec": {"nodeName": NODE, "containers": containers, "initContainers": first},
        "status": {
            "phase": more.get("phase", "Pending"),
            "containerStatuses": [{"state": {"running": {}}}] if more.get("started") else [],
        },
    }


def pod(name: str, **more: Any) -> PodInfo:
    """The facts of a pod."""
    return pod_info(raw_pod(name, **more))


def raw_job(name: str) -> dict[str, Any]:
    """A TrainingJob to own workers. It is another controller's, so Laneway's operator leaves it alone."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "managedBy": "laneway.example/test",
            "gpus": {"type": "Share", "sharePercent": 50},
            "template": {"spec": {"containers": [{"name": "trainer", "image": "i"}]}},
        },
    }


def labels_of_worker(name: str, job_uid: str, attempt: int = 1) -> dict[str, str]:
    """The labels that the operator gives to the worker of this name (JOB-RANK)."""
    job, _, rank = name.rpartition("-")
    return {
        names.JOB_LABEL: job,
        names.JOB_UID_LABEL: job_uid,
        names.RANK_LABEL: rank,
        names.ATTEMPT_LABEL: str(attempt),
    }


def owner_of_worker(name: str, job_uid: str) -> dict[str, Any]:
    """The owner reference that the operator gives to the worker of this name."""
    job = name.rpartition("-")[0]
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "name": job,
        "uid": job_uid,
        "controller": True,
    }


def worker(name: str, *, gpus: str = "", attempt: int = 1, **more: Any) -> PodInfo:
    """The facts of the worker of this name (JOB-RANK); ``gpus`` is what the operator chose."""
    made: dict[str, Any] = {
        "labels": labels_of_worker(name, "job-uid", attempt),
        "owners": [owner_of_worker(name, "job-uid")],
        "annotations": more.pop("annotations", {}) | ({names.GPUS_ANNOTATION: gpus} if gpus else {}),
    }
    return pod(name, **(made | more))


def listing(containers: Mapping[str, Mapping[str, Iterable[str]]]) -> Listing:
    """The kubelet's records of pods of the default namespace: ids by pod and container."""
    return Listing(
        {
            ("default", name): {container: frozenset(held) for container, held in by_container.items()}
            for name, by_container in containers.items()
        }
    )
