"""A real API server answers wrong TrainingJobs with a sentence that says what to write instead."""

from __future__ import annotations

import copy
import json
import subprocess
from typing import Any

import pytest

from hack.cluster.control_plane import LoopbackControlPlane

GOOD: dict[str, Any] = {
    "apiVersion": "laneway.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "good", "namespace": "default"},
    "spec": {
        "workers": 2,
        "gpus": {"share": 50},
        "template": {"spec": {"containers": [{"name": "trainer", "image": "training:1"}]}},
    },
}


def job(path: str = "", value: object = None, **metadata: str) -> dict[str, Any]:
    """Return the good job with one field set (``None`` removes it); the path is dotted, numbers index lists."""
    result = copy.deepcopy(GOOD)
    result["metadata"].update(metadata)
    if path:
        *parents, last = path.split(".")
        place: Any = result
        for name in parents:
            place = place[int(name)] if name.isdigit() else place.setdefault(name, {})
        if value is None:
            del place[last]
        else:
            place[last] = value
    return result


def kubectl(
    plane: LoopbackControlPlane, *arguments: str, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def apply(
    plane: LoopbackControlPlane, resource: dict[str, Any], *flags: str
) -> subprocess.CompletedProcess[str]:
    return kubectl(plane, "apply", *flags, "-f", "-", text=json.dumps(resource))


CONTAINER = "spec.template.spec.containers.0"

WRONG = {
    "two ways to ask for GPUs": (job("spec.gpus.perWorker", 1), "write exactly one of perWorker"),
    "no way to ask for GPUs": (job("spec.gpus.share"), "write exactly one of perWorker"),
    "more than a GPU as a share": (
        job("spec.gpus.share", 150),
        "write a number from 1 to 100; for several GPUs write perWorker",
    ),
    "no GPU per worker": (job("spec.gpus", {"perWorker": 0}), "write a number from 1 to 16"),
    "memory without a number": (job("spec.gpus", {"memory": "plenty"}), "such as 512Mi or 8Gi"),
    "no memory": (job("spec.gpus", {"memory": "0"}), "such as 512Mi or 8Gi"),
    "no workers": (job("spec.workers", 0), "workers is the size of the gang: write a number from 1 to 1024"),
    "a part of a GPU for itself": (
        job("spec.sharing", "Exclusive"),
        "write gpus.perWorker, or sharing: Lanes",
    ),
    "an unknown placement": (
        job("spec.placement", "Anywhere"),
        'supported values: "Auto", "Consolidate", "Spread"',
    ),
    "an unknown way to fit": (
        job("spec.memory", {"fit": "Squeeze"}),
        'supported values: "Auto", "Offload", "Recompute", "Off"',
    ),
    "an unknown enforcement": (
        job("spec.minimumEnforcement", "hard"),
        'supported values: "cooperative", "watchdog", "mps"',
    ),
    "negative grace": (job("spec.preemption.gracePeriodSeconds", -1), "write a number from 0 to 3600"),
    "negative restarts": (job("spec.backoffLimit", -1), "write a number from 0 to 1000"),
    "a deadline that has passed": (job("spec.activeDeadlineSeconds", 0), "write 1 or more, or leave it out"),
    "a policy that restarts one worker": (
        job("spec.template.spec.restartPolicy", "Always"),
        "write Never or leave it out",
    ),
    "a node chosen by hand": (
        job("spec.template.spec.nodeName", "n1"),
        "to narrow the choice write nodeSelector",
    ),
    "the share asked for in the container": (
        job(f"{CONTAINER}.resources", {"limits": {"laneway.dev/gpu-percent": 10}}),
        "write spec.gpus, and Laneway adds the share",
    ),
    "a container without image": (job(f"{CONTAINER}.image"), "image: Required value"),
    "no containers": (job("spec.template.spec.containers", []), "should have at least 1 items"),
    "a name too long for a host name": (job(name="n" * 58), "write at most 57 lower-case letters"),
    "a name with a dot": (job(name="v1.5"), "write at most 57 lower-case letters, digits and '-'"),
    "a misspelt field": (job("spec.worker", 3), 'unknown field "spec.worker"'),
}


@pytest.mark.parametrize(("resource", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_spec_is_refused_at_apply_time(
    control_plane: LoopbackControlPlane, resource: dict[str, Any], sentence: str
) -> None:
    answer = apply(control_plane, resource, "--dry-run=server", "--validate=strict")
    assert answer.returncode != 0
    assert sentence in answer.stderr


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.gpus", {"perWorker": 4}),
        ("spec.gpus", {"memory": "8Gi", "models": ["A100"]}),
        ("spec.suspend", True),
    ],
)
def test_a_right_spec_is_taken(control_plane: LoopbackControlPlane, path: str, value: object) -> None:
    answer = apply(control_plane, job(path, value), "--dry-run=server", "--validate=strict")
    assert answer.returncode == 0, answer.stderr


def test_what_decides_the_placement_cannot_change_later(control_plane: LoopbackControlPlane) -> None:
    assert apply(control_plane, job(name="fixed")).returncode == 0
    answer = apply(control_plane, job("spec.workers", 3, name="fixed"))
    assert "workers cannot change once the job is there: delete it and create it anew" in answer.stderr
    assert apply(control_plane, job("spec.suspend", True, name="fixed")).returncode == 0
    assert kubectl(control_plane, "delete", "tj", "fixed").returncode == 0


def test_the_api_server_fills_in_the_defaults(control_plane: LoopbackControlPlane) -> None:
    answer = apply(control_plane, job("spec.workers"), "--dry-run=server", "-o", "json")
    spec = json.loads(answer.stdout)["spec"]
    assert (spec["workers"], spec["sharing"], spec["preemption"]) == (
        1,
        "Lanes",
        {"mode": "Auto", "gracePeriodSeconds": 30},
    )


def test_explain_reads_well(control_plane: LoopbackControlPlane) -> None:
    text = kubectl(control_plane, "explain", "tj.spec.gpus").stdout
    for words in (
        "perWorker",
        "Whole GPUs for each worker, 1 to 16.",
        "share",
        "Percent of one GPU",
        "memory",
        "models",
    ):
        assert words in text
    for field in (
        "tj.spec.preemption.gracePeriodSeconds",
        "tj.status.attainedService",
        "gn.status.gpus.lanes",
    ):
        assert "DESCRIPTION" in kubectl(control_plane, "explain", field).stdout
