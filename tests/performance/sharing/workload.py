"""The jobs of the sharing benchmark: kinds that use 30 to 70 % of a GPU, pairs of them for one GPU, and a crowd for six."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laneway.api import names

SHARED_FOLDER = "/var/lib/laneway-shared"
"""All nodes of the embedded cluster see it: devices and checkpoints are there."""

SOURCES = "sharing-trainer"
"""The ConfigMap with the script."""

GRACE_SECONDS = 30
CROWD_GPUS = 6
_IMAGE = "ghcr.io/laneway/examples:0.1.0"
_MOUNTED = "/trainer"
_REPOSITORY = Path(__file__).resolve().parents[3]
_MODEL = "Laneway Simulated"
_TRAINER = Path(__file__).with_name("trainer.py")
_DEVICE = _REPOSITORY / "tests" / "support" / "node_agent" / "simulated_device.py"


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs of one template."""

    name: str
    gpu_percent: int
    """The part of an iteration, alone, that is on the GPU; for the rest of it, the job waits for its input."""

    iteration_seconds: float
    """Alone."""

    persistent_mib: int = 16
    ephemeral_mib: int = 64


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("gpu-30", 30, 0.30),
        Kind("gpu-40", 40, 0.25),
        Kind("gpu-50", 50, 0.20),
        Kind("gpu-60", 60, 0.25),
        Kind("gpu-70", 70, 0.30),
        # Of 496 MiB, two iterations at once would need 600 and do not fit; in turns, two jobs need 400.
        Kind("tight", 50, 0.20, persistent_mib=100, ephemeral_mib=200),
    )
}

PAIRS: Mapping[str, tuple[str, str]] = {
    "30-30": ("gpu-30", "gpu-30"),
    "50-50": ("gpu-50", "gpu-50"),
    "70-70": ("gpu-70", "gpu-70"),
    "30-70": ("gpu-30", "gpu-70"),
    "tight": ("tight", "tight"),
}
"""By the name of its GPU's model: two jobs for one GPU."""

CROWD_KINDS = (
    "gpu-30",
    "gpu-40",
    "gpu-50",
    "gpu-60",
    "gpu-70",
    "gpu-50",
    "gpu-30",
    "gpu-40",
    "gpu-60",
    "gpu-70",
)
"""Ten jobs for six GPUs: 1.67 times as many."""


@dataclass(frozen=True, slots=True)
class SharingJob:
    """One job: what is submitted."""

    name: str
    group: str
    """The crowd, or a pair; of its GPUs' model."""

    kind: str
    steps: int
    node: str
    """The only node for it; empty: any."""

    def manifest(self, namespace: str) -> dict[str, Any]:
        """Return the TrainingJob."""
        kind = KINDS[self.kind]
        device_seconds = kind.iteration_seconds * kind.gpu_percent / 100
        folder = f"{SHARED_FOLDER}/{namespace}"
        environment = {
            "OMP_NUM_THREADS": "1",
            "STEPS": str(self.steps),
            "INPUT_SECONDS": f"{kind.iteration_seconds - device_seconds:.4f}",
            "DEVICE_SECONDS": f"{device_seconds:.4f}",
            "PERSISTENT_MIB": str(kind.persistent_mib),
            "EPHEMERAL_MIB": str(kind.ephemeral_mib),
            "SHARED": folder,
        }
        container = {
            "name": "trainer",
            "image": _IMAGE,
            "imagePullPolicy": "Never",
            "command": ["python3", f"{_MOUNTED}/trainer.py"],
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "volumeMounts": [
                {"name": "shared", "mountPath": folder},
                {"name": "sources", "mountPath": _MOUNTED},
            ],
        }
        pod: dict[str, Any] = {
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": [
                {"name": "shared", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}},
                {"name": "sources", "configMap": {"name": SOURCES}},
            ],
        }
        if self.node:
            pod["nodeSelector"] = {"kubernetes.io/hostname": self.node}
        return {
            "apiVersion": names.API_VERSION,
            "kind": "TrainingJob",
            "metadata": {"name": self.name, "namespace": namespace},
            "spec": {
                "gpus": {"type": "Count", "count": 1, "models": [model_of(self.group)]},
                "backoffLimit": 0,
                "preemption": {"gracePeriodSeconds": GRACE_SECONDS},
                "template": {"spec": pod},
            },
        }


CROWD = "crowd"


def model_of(group: str) -> str:
    """Return the model of the GPUs that a group's jobs accept."""
    return f"{_MODEL} Crowd" if group == CROWD else f"{_MODEL} Pair {group}"


def jobs_of(groups: Sequence[str], prefix: str, seconds: float, pair_node: str) -> list[SharingJob]:
    """Return the jobs in the order of their submission.

    Args:
        groups: pairs by name, or the crowd.
        prefix: of the jobs' names.
        seconds: for how long each trains alone.
        pair_node: the node with the pairs' GPUs.
    """
    found = []
    for group in groups:
        kinds = CROWD_KINDS if group == CROWD else PAIRS[group]
        for number, kind in enumerate(kinds):
            steps = round(seconds / KINDS[kind].iteration_seconds)
            node = "" if group == CROWD else pair_node
            found.append(SharingJob(f"{prefix}-{group}-{number}", group, kind, steps, node))
    return found


def sources(namespace: str) -> dict[str, Any]:
    """Return the ConfigMap with the script and the simulated device."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": SOURCES, "namespace": namespace},
        "data": {file.name: file.read_text(encoding="utf-8") for file in (_TRAINER, _DEVICE)},
    }
