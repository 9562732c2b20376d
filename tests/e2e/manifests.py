"""Builds the TrainingJobs and pods of the end-to-end tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from laneway.api import names
from laneway.api.names import GPU_PERCENT

from hack.demo.install import SYSTEM_NAMESPACE
from tests.support.device_plugin.builders import labels_of_worker, owner_of_worker

IMAGE = "ghcr.io/laneway/examples:0.1.0"
SMALL_IMAGE = "ghcr.io/laneway/client:0.1.0"
"""A Python and nothing else; what makes it Laneway's is not used."""

OFFERED_PERCENT = 100
"""Of each GPU, with `sharing: off`."""

SHARED_FOLDER = "/var/lib/laneway-shared"

_SCRIPT = (Path(__file__).parent / "worker.py").read_text()
_SESSION_HOLDER = (Path(__file__).parent / "session_holder.py").read_text()


def _container(environment: dict[str, str]) -> dict[str, Any]:
    return {
        "name": "trainer",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", _SCRIPT],
        "env": [
            {"name": name, "value": value}
            for name, value in ({"OMP_NUM_THREADS": "1", "USE_LIBUV": "0"} | environment).items()
        ],
        "volumeMounts": [{"name": "shared", "mountPath": SHARED_FOLDER}],
    }


_VOLUMES = [{"name": "shared", "hostPath": {"path": SHARED_FOLDER, "type": "Directory"}}]


def training_job(name: str, *, spec: dict[str, Any] | None = None, **parameters: object) -> dict[str, Any]:
    """A TrainingJob of one worker with 30 percent of a GPU; ``spec`` overrides, parameters go to the script."""
    environment = {key.upper(): str(value) for key, value in parameters.items()}
    template = {"spec": {"containers": [_container(environment)], "volumes": _VOLUMES}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"gpus": {"type": "Share", "sharePercent": 30}, "template": template, **(spec or {})},
    }


_ITERATES = """
import time
from laneway.client import iteration
while True:
    with iteration():
        pass
    time.sleep(0.2)
"""
"""Is not prepared for SIGTERM: the client stops it between two iterations."""


def small_job(name: str, *, spec: dict[str, Any], tolerations: list[dict[str, Any]]) -> dict[str, Any]:
    """A TrainingJob whose workers do empty iterations: they start, and stop, at once."""
    container = _container({}) | {"image": SMALL_IMAGE, "command": ["python3", "-c", _ITERATES]}
    job = training_job(name, spec=spec)
    job["spec"]["template"]["spec"] |= {"containers": [container], "tolerations": tolerations}
    return job


EXCLUSIVE_NODE = {"gpus": {"type": "Count", "count": 4}, "sharing": "Exclusive"}
"""All GPUs of one node, alone."""


OPERATOR_USER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:laneway-operator"
"""The only user who may write what tells a worker from a plain pod."""


def worker_metadata(name: str, job_uid: str, gpu: str, **annotations: str) -> dict[str, Any]:
    """What the operator writes on the worker of this name (JOB-RANK), as far as the node heeds it."""
    return {
        "labels": labels_of_worker(name, job_uid),
        "ownerReferences": [owner_of_worker(name, job_uid)],
        "annotations": {names.GPUS_ANNOTATION: gpu, **annotations},
    }


def session_pod(
    name: str, percent: int, *, node: str = "", metadata: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A pod that holds a session and does nothing else: small, so that there can be hundreds."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": session_pod_spec(percent)
        | ({"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}),
    }


def session_pod_spec(percent: int) -> dict[str, Any]:
    """The spec of a pod that holds a session with a percentage of a GPU."""
    return {
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [
            {
                "name": "trainer",
                "image": SMALL_IMAGE,
                "imagePullPolicy": "Never",
                "command": ["python3", "-c", _SESSION_HOLDER],
                "resources": {"limits": {GPU_PERCENT: str(percent)}},
            }
        ],
    }


def session_replicas(name: str, percent: int, replicas: int) -> dict[str, Any]:
    """A ReplicaSet of such pods: one that the kubelet refuses is followed by another."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": session_pod_spec(percent)},
        },
    }
