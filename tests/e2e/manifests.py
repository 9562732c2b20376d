"""Builds the TrainingJobs and pods of the end-to-end tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from laneway.api import names

IMAGE = "laneway/examples:0.1.0"
SHARED_FOLDER = "/var/lib/laneway-shared"

_SCRIPT = (Path(__file__).parent / "worker.py").read_text()


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
        "spec": {"gpus": {"share": 30}, "template": template, **(spec or {})},
    }


EXCLUSIVE_NODE = {"gpus": {"perWorker": 4}, "sharing": "Exclusive"}
"""All GPUs of one node, alone."""
