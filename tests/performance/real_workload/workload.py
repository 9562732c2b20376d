"""The 30 jobs of the workload, in `workload.json`: this module drew them at random once, and reads them from there.

    python -m tests.performance.real_workload.workload > tests/performance/real_workload/workload.json

Arrivals are a Poisson process; run times are log-normal, cut off at both ends: most jobs are short, and the few long ones hold
most of the GPU time. Gangs of two and four workers and parts of GPUs are mixed in at fixed numbers, in random order.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from laneway.api import names

WORKLOAD = Path(__file__).with_name("workload.json")
BATCH_SECONDS = 0.5
"""The interval between batches, in every job: many times as long as the computation on one."""

SHARED_FOLDER = "/var/lib/laneway-shared"
"""All nodes of the embedded cluster see it: the checkpoints are there."""

GRACE_SECONDS = 30
_TRAINER = Path(__file__).with_name("trainer.py").read_text(encoding="utf-8")
_IMAGE = "ghcr.io/laneway/examples:0.1.0"

_SEED = 8
_SHAPES = ((1, 50, 7), (1, 25, 2), (1, 100, 8), (2, 50, 2), (2, 100, 6), (4, 100, 5))
"""Workers, percent of a GPU for each, and how many such jobs."""

_BETWEEN_SECONDS = 8.0
_MEDIAN_SECONDS, _SPREAD = 40.0, 0.75
_LEAST_SECONDS, _MOST_SECONDS = 15.0, 150.0


@dataclass(frozen=True, slots=True)
class WorkloadJob:
    """One job: what is submitted, and when."""

    name: str
    submit_seconds: float
    """Since the first submission."""

    workers: int
    share_percent: int
    """Of one GPU, for each worker."""

    steps: int

    @property
    def work_seconds(self) -> float:
        """How long its data take to arrive: its run time but for setting up and ending."""
        return self.steps * BATCH_SECONDS

    def manifest(self, namespace: str) -> dict[str, Any]:
        """Return the TrainingJob."""
        folder = f"{SHARED_FOLDER}/{namespace}"
        environment = {
            "OMP_NUM_THREADS": "1",
            "USE_LIBUV": "0",  # Debian's PyTorch is built without it
            "STEPS": str(self.steps),
            "BATCH_SECONDS": str(BATCH_SECONDS),
            "CHECKPOINT": f"{folder}/{self.name}.pt",
        }
        container = {
            "name": "trainer",
            "image": _IMAGE,
            "imagePullPolicy": "Never",
            "command": ["python3", "-c", _TRAINER],
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "volumeMounts": [{"name": "shared", "mountPath": folder}],
        }
        volume = {"name": "shared", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}}
        gpus = (
            {"type": "Count", "count": 1}
            if self.share_percent == 100
            else {"type": "Share", "sharePercent": self.share_percent}
        )
        return {
            "apiVersion": names.API_VERSION,
            "kind": "TrainingJob",
            "metadata": {"name": self.name, "namespace": namespace},
            "spec": {
                "workers": self.workers,
                "gpus": gpus,
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


def read_workload() -> tuple[WorkloadJob, ...]:
    """Return the jobs, ordered by submission."""
    return tuple(WorkloadJob(**job) for job in json.loads(WORKLOAD.read_text(encoding="utf-8")))


def draw() -> Iterable[WorkloadJob]:
    """Draw the jobs; the same whenever it is called."""
    randomness = random.Random(_SEED)
    shapes = [(workers, share) for workers, share, count in _SHAPES for _ in range(count)]
    randomness.shuffle(shapes)
    submit_seconds = 0.0
    for number, (workers, share_percent) in enumerate(shapes):
        drawn_seconds = _MEDIAN_SECONDS * randomness.lognormvariate(0.0, _SPREAD)
        steps = round(min(max(drawn_seconds, _LEAST_SECONDS), _MOST_SECONDS) / BATCH_SECONDS)
        yield WorkloadJob(f"job-{number:02d}", round(submit_seconds, 1), workers, share_percent, steps)
        submit_seconds += randomness.expovariate(1 / _BETWEEN_SECONDS)


if __name__ == "__main__":
    json.dump([asdict(job) for job in draw()], sys.stdout, indent=1)
    print()
