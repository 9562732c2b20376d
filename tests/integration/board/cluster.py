"""Writes the objects that the operator and the agents would write to a real API server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kubernetes import client, config

from hack.cluster.control_plane import LoopbackControlPlane

Object = dict[str, Any]

_API = ("laneway.dev", "v1alpha1")
_MERGE = "application/merge-patch+json"


class Cluster:
    """An administrator's access."""

    def __init__(self, plane: LoopbackControlPlane) -> None:
        self.plane = plane
        settings = client.Configuration()
        config.load_kube_config(config_file=str(plane.kubeconfig), client_configuration=settings)
        self._objects = client.CustomObjectsApi(client.ApiClient(settings))

    def kubectl(self, *arguments: str, text: str = "") -> str:
        command = [str(self.plane.kubectl), "--kubeconfig", str(self.plane.kubeconfig), *arguments]
        done = subprocess.run(command, check=False, input=text, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, *objects: Object) -> None:
        self.kubectl(
            "apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        )

    def put_jobs(self, jobs: Iterable[Object]) -> None:
        """Create TrainingJobs with their statuses, eight at a time."""
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(self._put_job, jobs))

    def put_nodes(self, nodes: Iterable[Object]) -> None:
        """Create GPUNodes with their statuses."""
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(self._put_node, nodes))

    def patch_job(self, namespace: str, name: str, **status: Any) -> None:
        """Change a TrainingJob's status."""
        self._objects.patch_namespaced_custom_object_status(
            *_API, namespace, "trainingjobs", name, {"status": status}, _content_type=_MERGE
        )

    def delete_job(self, namespace: str, name: str) -> None:
        self._objects.delete_namespaced_custom_object(*_API, namespace, "trainingjobs", name)

    def delete_node(self, name: str) -> None:
        self._objects.delete_cluster_custom_object(*_API, "gpunodes", name)

    def _put_job(self, job: Object) -> None:
        metadata = job["metadata"]
        self._objects.create_namespaced_custom_object(*_API, metadata["namespace"], "trainingjobs", job)
        if job["status"]:
            self.patch_job(metadata["namespace"], metadata["name"], **job["status"])

    def _put_node(self, node: Object) -> None:
        self._objects.create_cluster_custom_object(*_API, "gpunodes", node)
        self._objects.patch_cluster_custom_object_status(
            *_API, "gpunodes", node["metadata"]["name"], {"status": node["status"]}, _content_type=_MERGE
        )


def training_job(namespace: str, name: str, gpus: Object | None = None, **status: Any) -> Object:
    """A TrainingJob, by default with half a GPU."""
    return {
        "apiVersion": "laneway.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "gpus": gpus or {"type": "Share", "sharePercent": 50},
            "template": {"spec": {"containers": [{"name": "trainer", "image": "training:1"}]}},
        },
        "status": status,
    }


def session(key: str, namespace: str, job: str, state: str = "Holding", **fields: Any) -> Object:
    """A session of a job's first worker."""
    return {
        "key": key,
        "namespace": namespace,
        "pod": f"{job}-0",
        "container": "trainer",
        "job": job,
        "rank": 0,
        "sharePercent": 40,
        "quotaBytes": 32 << 30,
        "persistentBytes": 9 << 30,
        "ephemeralBytes": 12 << 30,
        "heldBytes": 18 << 30,
        "state": state,
        **fields,
    }


def gpu(uuid: str, index: int, sessions: list[Object], lanes: list[list[str]], **fields: Any) -> Object:
    """A GPU whose lanes hold the sessions of these keys."""
    return {
        "uuid": uuid,
        "index": index,
        "model": "NVIDIA H100 80GB HBM3",
        "memoryBytes": 80 << 30,
        "allocatableBytes": 79 << 30,
        "allocatablePercent": 800,
        "healthy": True,
        "enforcement": "Interposer",
        "sessions": sessions,
        "lanes": [
            {"id": number, "ephemeralBytes": 12 << 30, "sessions": keys} for number, keys in enumerate(lanes)
        ],
        **fields,
    }


def gpu_node(name: str, gpus: list[Object]) -> Object:
    """A node that is ready."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "The agent runs.",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }
    status = {
        "conditions": [ready],
        "observedAt": "2026-01-31T12:00:00Z",
        "gpuCount": len(gpus),
        "gpus": gpus,
    }
    return {
        "apiVersion": "laneway.dev/v1alpha1",
        "kind": "GPUNode",
        "metadata": {"name": name},
        "spec": {},
        "status": status,
    }
