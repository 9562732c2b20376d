"""A real API server answers wrong TrainingJobs with a sentence that says what to write instead."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from laneway.api import pod_template
from laneway.api.generate_crds import pod_definitions_text
from laneway.api.schema import MAX_COUNTER

from hack.cluster.control_plane import LoopbackControlPlane

GOOD: dict[str, Any] = {
    "apiVersion": "laneway.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "good", "namespace": "default"},
    "spec": {
        "workers": 2,
        "gpus": {"type": "Share", "sharePercent": 50},
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
            place[int(last) if last.isdigit() else last] = value
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
    "an amount of memory that takes minutes to compute": (
        job("spec.gpus", {"type": "Memory", "memory": "1e999999999"}),
        "memory must be a quantity between zero and 1Pi",
    ),
    "more memory than any GPU has": (
        job("spec.gpus", {"type": "Memory", "memory": "1Ei"}),
        "memory must be a quantity between zero and 1Pi",
    ),
    "a sign that the operator does not read": (
        job("spec.gpus", {"type": "Memory", "memory": "+8Gi"}),
        "memory must be a quantity between zero and 1Pi",
    ),
    "less than a byte": (
        job("spec.gpus", {"type": "Memory", "memory": "9e-19"}),
        "memory must be a quantity between zero and 1Pi",
    ),
    "a gang whose Service cannot have its name before Kubernetes 1.36": (
        job(name="3d-unet"),
        "metadata.name of a gang must begin with a letter: earlier operators name a Service after the gang",
    ),
    "two amounts of GPU": (
        job("spec.gpus.count", 1),
        "count is required when type is Count, and forbidden otherwise",
    ),
    "no amount of GPU": (
        job("spec.gpus.sharePercent"),
        "sharePercent is required when type is Share, and forbidden otherwise",
    ),
    "no kind of amount": (job("spec.gpus.type"), "spec.gpus.type: Required value"),
    "more than a GPU as a share": (
        job("spec.gpus.sharePercent", 150),
        "spec.gpus.sharePercent in body should be less than or equal to 100",
    ),
    "no GPU per worker": (
        job("spec.gpus", {"type": "Count", "count": 0}),
        "spec.gpus.count in body should be greater than or equal to 1",
    ),
    "more GPUs per worker than any node has": (
        job("spec.gpus", {"type": "Count", "count": 17}),
        "spec.gpus.count in body should be less than or equal to 16",
    ),
    "CPUs without a number": (
        job(f"{CONTAINER}.resources", {"requests": {"cpu": "lots"}}),
        "spec.template.spec.containers[0].resources.requests.cpu in body should match",
    ),
    "memory without a number": (
        job("spec.gpus", {"type": "Memory", "memory": "plenty"}),
        "such as 512Mi or 8Gi",
    ),
    "no memory": (job("spec.gpus", {"type": "Memory", "memory": "0"}), "such as 512Mi or 8Gi"),
    "half a range of workers": (job("spec.minWorkers", 1), "minWorkers and maxWorkers belong together"),
    "an inverted range of workers": (
        {**GOOD, "spec": {**GOOD["spec"], "minWorkers": 3, "maxWorkers": 2}},
        "workers is not between minWorkers and maxWorkers",
    ),
    "an elastic job whose name is no Service's": (
        {
            **GOOD,
            "metadata": {"name": "3d", "namespace": "default"},
            "spec": {**GOOD["spec"], "workers": 1, "minWorkers": 1, "maxWorkers": 2},
        },
        "must begin with a letter",
    ),
    "no workers": (job("spec.workers", 0), "spec.workers in body should be greater than or equal to 1"),
    "too many workers": (
        job("spec.workers", 1025),
        "spec.workers in body should be less than or equal to 1024",
    ),
    "a part of a GPU for itself": (job("spec.sharing", "Exclusive"), "set gpus.type to Count"),
    "a bound on sharing of a job that does not share": (
        job(
            "spec",
            {
                **job()["spec"],
                "gpus": {"type": "Count", "count": 1},
                "sharing": "Exclusive",
                "maxSlowdownPercent": 10,
            },
        ),
        "maxSlowdownPercent needs sharing: Lanes: leave it out, or let the job share GPUs",
    ),
    "a bound of more than all": (
        job("spec.maxSlowdownPercent", 101),
        "spec.maxSlowdownPercent in body should be less than or equal to 100",
    ),
    "an unknown placement": (
        job("spec.placement", "Anywhere"),
        'supported values: "Auto", "Consolidate", "Spread"',
    ),
    "an unknown way to fit": (
        job("spec.memoryFit", "Squeeze"),
        'supported values: "Auto", "Offload", "Recompute", "Off"',
    ),
    "an unknown enforcement": (
        job("spec.minimumEnforcement", "hard"),
        'supported values: "Cooperative", "Watchdog", "Interposer", "MPS"',
    ),
    "no CPUs at least": (job("spec.minimumCPU", "0"), "a number of CPUs above zero, such as 2, 1.5 or 500m"),
    "fewer CPUs than none": (job("spec.minimumCPU", -1), "a number of CPUs above zero"),
    "CPUs that are no quantity": (job("spec.minimumCPU", "two"), "a number of CPUs above zero"),
    "negative grace": (job("spec.preemption.gracePeriodSeconds", -1), "greater than or equal to 0"),
    "negative restarts": (job("spec.backoffLimit", -1), "greater than or equal to 0"),
    "a deadline that has passed": (job("spec.activeDeadlineSeconds", 0), "greater than or equal to 1"),
    "a queue": (job("spec.queueName", "team-a"), "queueName is reserved for a later version: leave it out"),
    "two priority classes": (
        job(
            "spec",
            {
                **GOOD["spec"],
                "priorityClassName": "urgent",
                "template": {"spec": {**GOOD["spec"]["template"]["spec"], "priorityClassName": "patient"}},
            },
        ),
        "priorityClassName and template.spec.priorityClassName differ: set only one of them",
    ),
    "a policy that restarts one worker": (
        job("spec.template.spec.restartPolicy", "Always"),
        "restartPolicy must be Never or left out",
    ),
    "a node chosen by hand": (
        job("spec.template.spec.nodeName", "n1"),
        "to narrow the choice set nodeSelector",
    ),
    "a host name": (
        job("spec.template.spec.hostname", "mine"),
        "hostname is forbidden: Laneway sets it to the name of the worker's pod, JOB-RANK; leave it out",
    ),
    "a subdomain": (
        job("spec.template.spec.subdomain", "mine"),
        "subdomain is forbidden: Laneway sets it to its Service's name",
    ),
    "a label that the operator writes": (
        job("spec.template.metadata", {"labels": {"laneway.dev/rank": "1"}}),
        "are forbidden: Laneway sets them; leave them out, or use another prefix",
    ),
    "an annotation that the operator writes": (
        job("spec.template.metadata", {"annotations": {"laneway.dev/gpus": "x"}}),
        "are forbidden: Laneway sets them; leave them out, or use another prefix",
    ),
    "two grace periods": (
        job(
            "spec",
            {
                **GOOD["spec"],
                "preemption": {"gracePeriodSeconds": 30},
                "template": {
                    "spec": {**GOOD["spec"]["template"]["spec"], "terminationGracePeriodSeconds": 60}
                },
            },
        ),
        "differ: set only one of them, or both to the same number",
    ),
    "a grace period of hours": (
        job("spec.template.spec.terminationGracePeriodSeconds", 7200),
        "terminationGracePeriodSeconds in body should be less than or equal to 3600",
    ),
    "the share asked for in the container": (
        job(f"{CONTAINER}.resources", {"limits": {"laneway.dev/gpu-percent": 10}}),
        "set spec.gpus, and Laneway adds the share",
    ),
    "a container without image": (job(f"{CONTAINER}.image"), "image: Required value"),
    "no containers": (job("spec.template.spec.containers", []), "should have at least 1 items"),
    "a variable that is no mapping": (job(f"{CONTAINER}.env", ["A=B"]), 'must be of type object: "string"'),
    "a name too long for a host name": (job(name="n" * 58), "use at most 57 lower-case letters"),
    "a name with a dot": (job(name="v1.5"), "use at most 57 lower-case letters, digits and '-'"),
    "a misspelt field": (job("spec.worker", 3), 'unknown field "spec.worker"'),
    "a misspelt field of the pod": (
        job("spec.template.spec.nodeSelectr", {"a": "b"}),
        'unknown field "spec.template.spec.nodeSelectr"',
    ),
    "a misspelt field of a container": (
        job(f"{CONTAINER}.imagePullPolice", "Always"),
        'unknown field "spec.template.spec.containers[0].imagePullPolice"',
    ),
    "metadata that the operator writes": (
        job("spec.template.metadata", {"name": "mine"}),
        'unknown field "spec.template.metadata.name"',
    ),
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
        ("spec.gpus", {"type": "Count", "count": 4}),
        ("spec.gpus", {"type": "Memory", "memory": "8Gi", "models": ["A100"]}),
        ("spec.suspend", True),
        ("spec.minimumCPU", 2),
        ("spec.minimumCPU", "1500m"),
        ("spec.queueName", ""),
        ("spec.managedBy", "example.com/other"),
        ("spec.template.spec.priorityClassName", "system-cluster-critical"),
        ("spec.template.spec.terminationGracePeriodSeconds", 60),
        (
            "spec.template.metadata",
            {
                "labels": {"team": "vision"},
                "annotations": {"laneway.dev/minimum-enforcement": "Watchdog"},
            },
        ),
        (
            CONTAINER,
            {
                "name": "trainer",
                "image": "training:1",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "resources": {"requests": {"cpu": 2, "memory": "1.5Gi"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 5},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "securityContext": {"capabilities": {"drop": ["ALL"]}},
            },
        ),
    ],
)
def test_a_right_spec_is_taken(control_plane: LoopbackControlPlane, path: str, value: object) -> None:
    answer = apply(control_plane, job(path, value), "--dry-run=server", "--validate=strict")
    assert answer.returncode == 0, answer.stderr


def test_a_job_of_one_worker_may_begin_with_a_digit(control_plane: LoopbackControlPlane) -> None:
    accepted = apply(control_plane, job("spec.workers", 1, name="3d-unet"), "--dry-run=server")
    assert accepted.returncode == 0, accepted.stderr


def test_a_job_with_a_range_is_scaled_within_it(control_plane: LoopbackControlPlane) -> None:
    elastic = job("spec.minWorkers", 1, name="elastic")
    elastic["spec"]["maxWorkers"] = 4
    assert apply(control_plane, elastic).returncode == 0
    scaled = kubectl(control_plane, "scale", "trainingjob/elastic", "--replicas=4")
    assert scaled.returncode == 0, scaled.stderr
    shown = kubectl(control_plane, "get", "trainingjob/elastic", "--subresource=scale", "-o", "json")
    assert json.loads(shown.stdout)["spec"] == {"replicas": 4}
    refused = kubectl(control_plane, "scale", "trainingjob/elastic", "--replicas=5")
    assert "workers is not between minWorkers and maxWorkers" in refused.stderr
    elastic["spec"]["workers"] = 4
    elastic["spec"]["maxWorkers"] = 8
    assert "maxWorkers can change only while the job has no workers" in apply(control_plane, elastic).stderr
    assert kubectl(control_plane, "delete", "tj", "elastic").returncode == 0


def test_a_suspended_job_without_workers_can_get_a_range(control_plane: LoopbackControlPlane) -> None:
    suspended = job("spec.suspend", True, name="ranged")
    assert apply(control_plane, suspended).returncode == 0
    has_workers = '{"status": {"workers": 2}}'
    arguments = ("patch", "tj", "ranged", "--subresource=status", "--type=merge")
    assert kubectl(control_plane, *arguments, "-p", has_workers).returncode == 0
    suspended["spec"] |= {"workers": 3, "minWorkers": 1, "maxWorkers": 4}
    assert "wait until status.workers is 0" in apply(control_plane, suspended).stderr
    assert kubectl(control_plane, *arguments, "-p", has_workers.replace("2", "0")).returncode == 0
    taken = apply(control_plane, suspended)
    assert taken.returncode == 0, taken.stderr
    suspended["spec"]["maxWorkers"] = 2
    assert "workers is not between minWorkers and maxWorkers" in apply(control_plane, suspended).stderr
    suspended["spec"] |= {"maxWorkers": 8, "suspend": False}
    resumed = apply(control_plane, suspended)
    assert resumed.returncode == 0, "together with the end of the suspension"
    suspended["spec"]["minWorkers"] = 2
    assert "minWorkers can change only while the job has no workers" in apply(control_plane, suspended).stderr
    assert kubectl(control_plane, "delete", "tj", "ranged").returncode == 0


def test_a_job_whose_name_begins_with_a_digit_cannot_become_a_gang(
    control_plane: LoopbackControlPlane,
) -> None:
    wanted = job("spec.workers", 1, name="3d-range")
    wanted["spec"]["suspend"] = True
    assert apply(control_plane, wanted).returncode == 0
    wanted["spec"] |= {"minWorkers": 1, "maxWorkers": 2}
    assert "must begin with a letter" in apply(control_plane, wanted).stderr
    assert kubectl(control_plane, "delete", "tj", "3d-range").returncode == 0


def test_an_empty_priority_class_is_none(control_plane: LoopbackControlPlane) -> None:
    wanted = job("spec.priorityClassName", "urgent")
    wanted["spec"]["template"]["spec"]["priorityClassName"] = ""
    accepted = apply(control_plane, wanted, "--dry-run=server")
    assert accepted.returncode == 0, accepted.stderr


def test_what_decides_the_placement_cannot_change_later(control_plane: LoopbackControlPlane) -> None:
    assert apply(control_plane, job(name="fixed")).returncode == 0
    answer = apply(control_plane, job("spec.workers", 3, name="fixed"))
    assert "workers can change only where minWorkers and maxWorkers are set" in answer.stderr
    answer = kubectl(control_plane, "scale", "trainingjob/fixed", "--replicas=3")
    assert "workers can change only where minWorkers and maxWorkers are set" in answer.stderr
    ranged = job("spec.minWorkers", 1, name="fixed")
    ranged["spec"]["maxWorkers"] = 4
    assert "minWorkers can change only while the job has no workers" in apply(control_plane, ranged).stderr
    answer = apply(control_plane, job("spec.managedBy", "example.com/other", name="fixed"))
    assert "managedBy is immutable: delete the job and create it again" in answer.stderr
    assert apply(control_plane, job("spec.suspend", True, name="fixed")).returncode == 0
    assert kubectl(control_plane, "delete", "tj", "fixed").returncode == 0


def test_the_api_server_fills_in_the_defaults(control_plane: LoopbackControlPlane) -> None:
    answer = apply(control_plane, job("spec.workers"), "--dry-run=server", "-o", "json")
    spec = json.loads(answer.stdout)["spec"]
    assert (spec["workers"], spec["sharing"], spec["preemption"]) == (
        1,
        "Lanes",
        {"mode": "Auto"},
    )


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ({"turns": MAX_COUNTER, "progress": {"percent": 100}}, ""),
        ({"startTime": "yesterday"}, "must be of type date-time"),
        ({"turns": MAX_COUNTER + 1}, "turns in body should be less than or equal to"),
        (
            {"progress": {"percent": 101}},
            "progress.percent in body should be less than or equal to 100",
        ),
    ],
)
def test_the_figures_of_a_status_have_a_range(
    control_plane: LoopbackControlPlane, status: dict[str, Any], sentence: str
) -> None:
    assert apply(control_plane, job(name="counts")).returncode == 0
    patch = json.dumps({"status": status})
    answer = kubectl(
        control_plane, "patch", "tj", "counts", "--subresource=status", "--type=merge", "-p", patch
    )
    assert (answer.returncode == 0) is not bool(sentence), answer.stderr
    assert sentence in answer.stderr
    assert kubectl(control_plane, "delete", "tj", "counts").returncode == 0


def test_explain_reads_well(control_plane: LoopbackControlPlane) -> None:
    text = kubectl(control_plane, "explain", "tj.spec.gpus").stdout
    for words in (
        "sharePercent",
        "Share of one GPU for each worker, in percent of its memory and its time.",
        "count",
        "Whole GPUs of one node for each worker.",
        "memory",
        "models",
    ):
        assert words in text
    for field in (
        "tj.spec.preemption.gracePeriodSeconds",
        "tj.status.attainedServiceGPUMilliseconds",
        "gn.status.gpus.lanes",
    ):
        assert "DESCRIPTION" in kubectl(control_plane, "explain", field).stdout


def test_the_template_is_the_pod_of_this_version_of_kubernetes(control_plane: LoopbackControlPlane) -> None:
    document = json.loads(kubectl(control_plane, "get", "--raw", "/openapi/v2").stdout)
    stored = Path(pod_template.__file__).with_suffix(".json").read_text()
    assert pod_definitions_text(document) == stored, "python -m laneway.api.generate_crds --openapi FILE"


def test_a_misspelt_field_is_not_dropped_in_silence(control_plane: LoopbackControlPlane) -> None:
    """kubectl validates strictly by default, and says what it does where it is told to warn only."""
    wrong = job(f"{CONTAINER}.imagePullPolice", "Always")
    assert "strict decoding error: unknown field" in apply(control_plane, wrong, "--dry-run=server").stderr
    warned = apply(control_plane, wrong, "--dry-run=server", "--validate=warn")
    assert warned.returncode == 0
    assert 'Warning: unknown field "spec.template.spec.containers[0].imagePullPolice"' in warned.stderr
