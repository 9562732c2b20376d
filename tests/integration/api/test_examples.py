"""The examples are taken by a real API server as they stand, and so are the workers that the operator makes of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from laneway.api.training_job_status import WorkerPlacementStatus
from laneway.operator.execute.manifests import gang_service, worker_pod
from laneway.operator.state.records.job_record import parse_job

from hack.cluster.control_plane import LoopbackControlPlane

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


def kubectl(plane: LoopbackControlPlane, *arguments: str, text: str = "") -> str:
    asked = subprocess.run(
        [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    return asked.stdout


@pytest.fixture(scope="module", autouse=True)
def account_of_the_pods(control_plane: LoopbackControlPlane) -> None:
    """A new API server takes no pod before its controllers have made the account that pods have by default."""
    kubectl(control_plane, "wait", "--for=create", "serviceaccount/default", "--timeout=120s")


def would_take(plane: LoopbackControlPlane, manifest: str) -> list[dict[str, Any]]:
    """Return the objects as the API server would store them."""
    arguments = ("apply", "--dry-run=server", "--output=json", "--filename=-")
    answer: dict[str, Any] = json.loads(kubectl(plane, *arguments, text=manifest))
    return list(answer["items"]) if answer["kind"] == "List" else [answer]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_and_its_workers_are_taken(control_plane: LoopbackControlPlane, path: Path) -> None:
    objects = would_take(control_plane, path.read_text(encoding="utf-8"))
    (raw,) = (each for each in objects if each["kind"] == "TrainingJob")
    raw["metadata"].setdefault("resourceVersion", "1")
    job = parse_job(raw)
    assert job.desired is not None, job
    spec = job.desired.spec
    for rank in range(spec.workers):
        share_percent = 100 if spec.gpus.share_percent is None else spec.gpus.share_percent
        gpus = tuple(f"GPU-{rank}-{index}" for index in range(spec.gpus_per_worker))
        worker = WorkerPlacementStatus(worker=rank, node="n1", gpus=gpus, sharePercent=share_percent)
        would_take(control_plane, json.dumps(worker_pod(job, spec, worker, 1, None)))
    if spec.workers > 1:
        would_take(control_plane, json.dumps(gang_service(job.namespace)))
