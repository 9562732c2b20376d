"""The jobs of the benchmark of elastic jobs: three gangs that train, and short jobs that come in two bursts beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laneway.api import names

SHARED_FOLDER = "/var/lib/laneway-shared"
"""All nodes of the embedded cluster see it: checkpoints are there."""

GANGS, FIXED_WORKERS, MOST_WORKERS = 3, 2, 4
EPOCHS, STEPS_PER_EPOCH, STEP_SECONDS = 12, 25, 0.8
"""A step takes STEP_SECONDS with one worker, half of that with two: a gang is 240 s of one worker's work."""

BETWEEN_GANGS_SECONDS = 5.0
BURSTS_SECONDS = (40.0, 110.0)
SHORT_JOBS, SHORT_SECONDS, BETWEEN_SHORT_SECONDS = 6, 20, 1.0
"""Of each burst; each has one GPU."""

GRACE_SECONDS = 30
_SCRIPT = (Path(__file__).parents[2] / "support" / "elastic_worker.py").read_text(encoding="utf-8")
_IMAGE, _SMALL_IMAGE = "ghcr.io/laneway/examples:0.1.0", "ghcr.io/laneway/client:0.1.0"


@dataclass(frozen=True, slots=True)
class BenchJob:
    """One job: what is submitted, and when."""

    name: str
    submit_seconds: float
    """Since the phase began."""

    gang: bool
    """Whether it trains; else it is a short job."""

    elastic: bool = False

    def manifest(self, namespace: str) -> dict[str, Any]:
        """Return the TrainingJob."""
        folder = f"{SHARED_FOLDER}/{namespace}"
        environment = {
            "OMP_NUM_THREADS": "1",
            "USE_LIBUV": "0",  # Debian's PyTorch is built without it
            "KIND": "ddp",
            "FOLDER": f"{folder}/{self.name}",
            "EPOCHS": str(EPOCHS),
            "STEP_SECONDS": str(STEP_SECONDS),
        }
        container = {
            "name": "trainer",
            "image": _IMAGE if self.gang else _SMALL_IMAGE,
            "imagePullPolicy": "Never",
            "command": [
                "python3",
                "-c",
                _SCRIPT if self.gang else f"import time; time.sleep({SHORT_SECONDS})",
            ],
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "volumeMounts": [{"name": "shared", "mountPath": folder}],
        }
        volume = {"name": "shared", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}}
        return {
            "apiVersion": names.API_VERSION,
            "kind": "TrainingJob",
            "metadata": {"name": self.name, "namespace": namespace},
            "spec": {
                **self._workers(),
                "gpus": {"type": "Count", "count": 1},
                "backoffLimit": 0,
                "preemption": {"gracePeriodSeconds": GRACE_SECONDS},
                "template": {
                    "spec": {
                        "automountServiceAccountToken": False,
                        "containers": [container],
                        "volumes": [volume],
                    }
                },
            },
        }

    def _workers(self) -> Mapping[str, int]:
        if not self.gang:
            return {}
        return {"workers": FIXED_WORKERS} | (
            {"minWorkers": 1, "maxWorkers": MOST_WORKERS} if self.elastic else {}
        )


def jobs_of(prefix: str, *, elastic: bool) -> list[BenchJob]:
    """Return the jobs of a phase in the order of their submission.

    Args:
        prefix: of the jobs' names.
        elastic: whether the number of the gangs' workers may change.
    """
    gangs = [
        BenchJob(f"{prefix}-gang-{number}", BETWEEN_GANGS_SECONDS * number, True, elastic)
        for number in range(GANGS)
    ]
    short = [
        BenchJob(f"{prefix}-short-{burst}-{number}", begin_seconds + BETWEEN_SHORT_SECONDS * number, False)
        for burst, begin_seconds in enumerate(BURSTS_SECONDS)
        for number in range(SHORT_JOBS)
    ]
    return sorted([*gangs, *short], key=lambda job: job.submit_seconds)
