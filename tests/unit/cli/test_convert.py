"""Conversions between TrainingJobs, Kubeflow's TrainJobs and torchrun Jobs. What is lost is named."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from laneway.api.training_job import TrainingJobSpec
from laneway.cli import exit_codes
from laneway.cli.conversion import Converted, WrongKindError, convert
from laneway.cli.conversion.torchrun import parse_torchrun
from laneway.cli.main import main

TRAIN_JOB = yaml.safe_load("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: bert, namespace: team, labels: {a: b}, uid: x, creationTimestamp: now}
spec:
  runtimeRef: {name: torch-distributed, kind: ClusterTrainingRuntime}
  labels: {team: nlp}
  suspend: true
  activeDeadlineSeconds: 60
  trainer:
    numNodes: 2
    numProcPerNode: 4
    image: bert:1
    command: [torchrun, train.py]
    args: [--epochs=3]
    env: [{name: SEED, value: "1"}, {name: PET_NNODES, value: "2"}]
    resourcesPerNode: {requests: {cpu: 8}, limits: {nvidia.com/gpu: 4, cpu: 8}}
  podTemplateOverrides:
  - targetJobs: [{name: node}]
    spec:
      nodeSelector: {pool: gpu}
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
      containers: [{name: node, volumeMounts: [{name: data, mountPath: /data}]}]
status: {conditions: []}
""")

BATCH_JOB = yaml.safe_load("""
apiVersion: batch/v1
kind: Job
metadata: {name: bert}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  backoffLimit: 5
  ttlSecondsAfterFinished: 60
  template:
    metadata: {labels: {app: bert, batch.kubernetes.io/job-name: bert}}
    spec:
      subdomain: bert
      restartPolicy: OnFailure
      nodeSelector: {pool: gpu}
      containers:
      - name: main
        image: bert:1
        command: [torchrun, --nnodes=2, --nproc_per_node, "4", --max-restarts, "2", --rdzv-backend=c10d]
        args: [--rdzv-endpoint, "bert-0.bert:29500", train.py, --nnodes=7]
        env: [{name: MASTER_ADDR, value: bert-0.bert}, {name: SEED, value: "1"}]
        resources: {limits: {nvidia.com/gpu: 4, memory: 8Gi}}
""")


def checked(converted: Converted) -> dict[str, Any]:
    """The one TrainingJob of a conversion, which the API accepts."""
    (job,) = converted.objects
    TrainingJobSpec.model_validate(job["spec"])
    return job


def test_a_train_job_becomes_a_training_job() -> None:
    converted = convert(TRAIN_JOB, None)
    job = checked(converted)
    assert job["metadata"] == {"name": "bert", "namespace": "team", "labels": {"a": "b"}}
    pod = job["spec"].pop("template")
    assert job["spec"] == {
        "workers": 2,
        "gpus": {"type": "Count", "count": 4},
        "suspend": True,
        "activeDeadlineSeconds": 60,
    }
    assert pod["metadata"] == {"labels": {"team": "nlp"}}
    assert pod["spec"] == {
        "restartPolicy": "Never",
        "nodeSelector": {"pool": "gpu"},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "containers": [
            {
                "name": "trainer",
                "image": "bert:1",
                "command": ["torchrun", "train.py"],
                "args": ["--epochs=3"],
                "env": [{"name": "SEED", "value": "1"}],
                "resources": {"requests": {"cpu": 8}, "limits": {"cpu": 8}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
    }
    assert converted.notes == ["spec.trainer.env[PET_NNODES] was left out: Laneway sets it"]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("spec.initializer", {"dataset": {"storageUri": "hf://x"}}, "spec.initializer.dataset was left out (hf://x): download it in the script"),
        ("spec.initializer", {"model": {"env": []}}, "spec.initializer.model was left out (from its runtime)"),
        ("spec.initializer", {"other": {"a": 1}}, "spec.initializer.other.a has no counterpart"),
        ("spec.managedBy", "x", "spec.managedBy has no counterpart"),
        ("spec.trainer.unheardOf", [1], "spec.trainer.unheardOf has no counterpart"),
        ("spec.runtimeRef.name", "deepspeed", "spec.runtimeRef is deepspeed: write what its template adds"),
        ("spec.trainer.numProcPerNode", 2, "spec.trainer.numProcPerNode is 2: Laneway starts a process for each of 4"),
        ("spec.trainer.numProcPerNode", "cpu", "spec.trainer.numProcPerNode is cpu: Laneway starts a process for each GPU"),
        ("spec.runtimeRef.kind", "TrainingRuntime", "spec.runtimeRef is torch-distributed, a TrainingRuntime: write"),
        ("spec.trainer.resourcesPerNode.limits", {"amd.com/gpu": 1}, "spec.template.spec.containers[trainer] requests amd.com/gpu"),
        ("spec.trainer.image", None, "spec.trainer.image is missing"),
        ("spec.trainer.command", None, "spec.trainer.command is missing: the image's own runs"),
        (
            "spec.podTemplateOverrides",
            [{"targetJobs": [{"name": "node"}], "spec": {"schedulingGates": [{"name": "g"}]}}],
            "spec.podTemplateOverrides[0].spec.schedulingGates[g].name has no counterpart",
        ),
        (
            "spec.podTemplateOverrides",
            [{"targetJobs": [{"name": "launcher"}], "spec": {"hostNetwork": True}}],
            "spec.podTemplateOverrides[0].spec.hostNetwork has no counterpart",
        ),
    ],
)  # fmt: skip
def test_what_is_lost_of_a_train_job_is_named(path: str, value: Any, says: str) -> None:
    converted = convert(changed(TRAIN_JOB, path, value), None)
    checked(converted)
    assert any(note.startswith(says) for note in converted.notes), converted.notes


def test_later_overrides_of_a_train_job_are_added_to_earlier_ones() -> None:
    """As Kubeflow merges them."""
    overrides = [{"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {each: "x"}}} for each in "ab"]
    (job,) = convert(changed(TRAIN_JOB, "spec.podTemplateOverrides", overrides), None).objects
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"a": "x", "b": "x"}


POD = {
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"operator": "Exists"}],
    "serviceAccountName": "trainer",
    "imagePullSecrets": [{"name": "registry"}],
    "volumes": [{"name": "data", "emptyDir": {}}],
    "securityContext": {"fsGroup": 7},
}
MOUNTED = {
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    "securityContext": {"runAsUser": 7},
}


def a_patch(manager: str, job: str, pod: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """An entry of runtimePatches about the pods of a job."""
    template = {"metadata": metadata, "spec": {"template": {"spec": pod}}}
    jobs = {"spec": {"replicatedJobs": [{"name": job, "template": template}]}}
    return {"manager": manager, "time": "now", "trainingRuntimeSpec": {"template": jobs}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("runtimePatches", [a_patch("sdk", "node", {**POD, "containers": [{"name": "node", **MOUNTED}]})]),
        ("podTemplateOverrides", [{"targetJobs": [{"name": "node"}], "spec": {**POD, "containers": [{"name": "node", **MOUNTED}]}}]),
        ("podSpecOverrides", [{"targetJobs": [{"name": "node"}], **POD, "containers": [{"name": "node", **MOUNTED}]}]),
    ],
)  # fmt: skip
def test_patches_of_the_workers_reach_their_template(field: str, value: Any) -> None:
    train_job = changed(TRAIN_JOB, "spec.podTemplateOverrides", None)
    converted = convert(changed(train_job, f"spec.{field}", deepcopy(value)), None)
    pod = checked(converted)["spec"]["template"]["spec"]
    (container,) = pod.pop("containers")
    assert pod == {"restartPolicy": "Never", **POD}
    assert {key: container[key] for key in MOUNTED} == MOUNTED
    assert converted.notes == ["spec.trainer.env[PET_NNODES] was left out: Laneway sets it"]


def test_patches_of_several_managers_add_up() -> None:
    patches = [
        a_patch("sdk", "node", {"nodeSelector": {"pool": "gpu", "zone": "a"}, "volumes": [{"name": "data", "emptyDir": {}}]}),
        a_patch("kueue", "node", {"nodeSelector": {"zone": "b"}, "volumes": [{"name": "x", "emptyDir": {}}]}, labels={"queue": "q"}),
    ]  # fmt: skip
    train_job = changed(TRAIN_JOB, "spec.podTemplateOverrides", None)
    template = checked(convert(changed(train_job, "spec.runtimePatches", patches), None))["spec"]["template"]
    assert template["metadata"]["labels"] == {"team": "nlp", "queue": "q"}
    assert template["spec"]["nodeSelector"] == {"pool": "gpu", "zone": "b"}
    assert [volume["name"] for volume in template["spec"]["volumes"]] == ["data", "x"]


def test_what_is_lost_of_a_patch_is_named() -> None:
    patches = [
        a_patch("kueue", "node", {"schedulingGates": [{"name": "g"}], "initContainers": [{"name": "i", "env": []}]}),
        a_patch("sdk", "launcher", {"nodeSelector": {"pool": "cpu"}}),
    ]  # fmt: skip
    patches[1]["trainingRuntimeSpec"]["template"]["metadata"] = {"labels": {"a": "b"}}
    notes = "\n".join(convert(changed(TRAIN_JOB, "spec.runtimePatches", patches), None).notes)
    where = "trainingRuntimeSpec.template"
    for lost in (
        f"spec.runtimePatches[0].{where}.spec.replicatedJobs[0].template.spec.template.spec.schedulingGates[g]",
        f"spec.runtimePatches[0].{where}.spec.replicatedJobs[0].template.spec.template.spec.initContainers[i]",
        f"spec.runtimePatches[1].{where}.spec.replicatedJobs[launcher].template.spec.template.spec.nodeSelector.pool",
        f"spec.runtimePatches[1].{where}.metadata.labels.a",
    ):
        assert lost in notes


def test_a_pods_fields_become_a_patch_of_the_workers() -> None:
    job = checked(convert(TRAIN_JOB, None))
    pod = job["spec"]["template"]["spec"]
    pod |= POD
    pod["containers"][0] |= MOUNTED
    converted = convert(job, "TrainJob")
    (train_job,) = converted.objects
    (patch,) = train_job["spec"]["runtimePatches"]
    (patched,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert patched["name"] == "node"
    assert patched["template"]["spec"]["template"] == {
        "metadata": {"labels": {"team": "nlp"}},
        "spec": {**POD, "containers": [{"name": "node", **MOUNTED}]},
    }
    assert "podTemplateOverrides" not in train_job["spec"]
    assert converted.notes == []
    assert checked(convert(train_job, None)) == job


def changed(given: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with another value of a field, or without it (None)."""
    copy = deepcopy(given)
    inside = copy
    *parents, last = path.split(".")
    for parent in parents:
        inside = inside[parent]
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    return copy


def test_a_torchrun_job_becomes_a_training_job() -> None:
    converted = convert(BATCH_JOB, None)
    job = checked(converted)
    assert (job["spec"]["workers"], job["spec"]["gpus"]) == (2, {"type": "Count", "count": 4})
    assert (job["spec"]["backoffLimit"], job["spec"]["ttlSecondsAfterFinished"]) == (5, 60)
    assert job["spec"]["template"] == {
        "metadata": {"labels": {"app": "bert"}},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"pool": "gpu"},
            "containers": [
                {
                    "name": "main",
                    "image": "bert:1",
                    "command": ["torchrun", "--max-restarts", "2", "train.py", "--nnodes=7"],
                    "env": [{"name": "SEED", "value": "1"}],
                    "resources": {"limits": {"memory": "8Gi"}},
                }
            ],
        },
    }
    assert [note.partition(" was left out")[0] for note in converted.notes] == [
        "--rdzv-backend c10d",
        "--rdzv-endpoint bert-0.bert:29500",
        "spec.template.spec.containers[main].env[MASTER_ADDR]",
        "spec.template.spec.subdomain",
        "--nnodes 2 is now spec.workers: 2",
        "--nproc-per-node 4 is now spec.gpus.count: 4, with a process for each GPU",
    ]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("spec.podFailurePolicy", {"rules": []}, "spec.podFailurePolicy.rules has no counterpart"),
        ("spec.backoffLimitPerIndex", 1, "spec.backoffLimitPerIndex has no counterpart"),
        ("spec.completions", 8, "spec.completions is 8: a TrainingJob runs its 2 workers once"),
        ("spec.parallelism", 0, "spec.parallelism is 0: the job is suspended"),
        (
            "spec.template.spec.initContainers",
            [{"name": "check", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
            "spec.template.spec.initContainers[check] requests nvidia.com/gpu, and was left so",
        ),
        ("spec.template.spec.nodeName", "n1", "spec.template.spec.nodeName was left out"),
    ],
)
def test_what_is_lost_of_a_job_is_named(path: str, value: Any, says: str) -> None:
    converted = convert(changed(BATCH_JOB, path, value), None)
    checked(converted)
    assert any(note.startswith(says) for note in converted.notes), converted.notes


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_another_container_gives_up_the_trainers_name(kind: str) -> None:
    job = deepcopy(BATCH_JOB)
    pod = job["spec"]["template"]["spec"]
    others = [{"name": "trainer", "image": "x"}, {"name": "trainer-2", "image": "x"}]
    pod["initContainers"] = []
    pod[kind] += others
    pod["containers"].append({"name": "logs", "image": "x"})
    converted = convert(job, None)
    written = checked(converted)["spec"]["template"]["spec"]
    names = [each["name"] for each in (*written["containers"], *written.get("initContainers", ()))]
    assert (names[0], written["containers"][0]["image"]) == ("trainer", "bert:1")
    assert sorted(names) == ["logs", "trainer", "trainer-2", "trainer-3"]
    assert any("was renamed to trainer-3" in note for note in converted.notes)
    assert "container main was renamed to trainer: Laneway gives it the GPUs" in converted.notes


def test_variables_and_volumes_refer_to_renamed_containers() -> None:
    job = deepcopy(BATCH_JOB)
    pod = job["spec"]["template"]["spec"]
    pod["containers"].append({"name": "trainer", "image": "x"})

    def of(container: str) -> dict[str, Any]:
        return {"resourceFieldRef": {"containerName": container, "resource": "limits.cpu"}}

    pod["containers"][0]["env"] = [
        {"name": "OWN", "valueFrom": of("main")},
        {"name": "OTHER", "valueFrom": of("trainer")},
    ]
    pod["volumes"] = [{"name": "info", "downwardAPI": {"items": [{"path": "cpus", **of("main")}]}}]
    written = checked(convert(job, None))["spec"]["template"]["spec"]
    assert [each["valueFrom"] for each in written["containers"][0]["env"]] == [of("trainer"), of("trainer-2")]
    assert written["volumes"][0]["downwardAPI"]["items"] == [{"path": "cpus", **of("trainer")}]


def test_a_job_that_runs_no_pods_is_suspended() -> None:
    (job,) = convert(changed(BATCH_JOB, "spec.parallelism", 0), None).objects
    assert job["spec"]["suspend"] is True


def test_a_shell_that_runs_torchrun_is_pointed_out() -> None:
    job = deepcopy(BATCH_JOB)
    job["spec"]["template"]["spec"]["containers"][0] |= {
        "command": ["sh", "-c", "torchrun --nnodes=2 a.py"],
        "args": [],
    }
    converted = convert(job, None)
    assert any("runs torchrun in a shell" in note for note in converted.notes)


def test_an_elastic_job_stays_elastic() -> None:
    job = deepcopy(BATCH_JOB)
    job["spec"]["template"]["spec"]["containers"][0]["command"][1] = "--nnodes=1:4"
    converted = convert(job, None)
    spec = checked(converted)["spec"]
    assert (spec["workers"], spec["minWorkers"], spec["maxWorkers"]) == (2, 1, 4)
    assert "--nnodes 1:4 is now spec.workers: 2, spec.minWorkers: 1 and spec.maxWorkers: 4" in converted.notes


@pytest.mark.parametrize(
    ("command", "left", "removed"),
    [
        (["torchrun", "a.py"], ["torchrun", "a.py"], {}),
        (["/bin/torchrun", "--standalone", "-m", "a", "--nnodes=1"], ["/bin/torchrun", "-m", "a", "--nnodes=1"], {"standalone": ""}),
        (
            ["python", "-m", "torch.distributed.run", "--nproc-per-node", "gpu", "a.py"],
            ["python", "-m", "torch.distributed.run", "a.py"],
            {"nproc-per-node": "gpu"},
        ),
    ],
)  # fmt: skip
def test_command_lines_of_torchrun(command: list[str], left: list[str], removed: dict[str, str]) -> None:
    torchrun = parse_torchrun(command)
    assert torchrun is not None
    assert (torchrun.command, torchrun.removed) == (left, removed)
    assert (torchrun.nodes, torchrun.processes) == (None, None)


@pytest.mark.parametrize("command", [[], ["python", "a.py"], ["python", "-m"], ["sh", "-c", "torchrun a.py"]])
def test_other_command_lines_are_left_alone(command: list[str]) -> None:
    assert parse_torchrun(command) is None


TRAINING_JOBS = st.builds(
    lambda workers, count, command, environment, labels: {
        "apiVersion": "laneway.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "a"},
        "spec": {
            "workers": workers,
            "gpus": {"type": "Count", "count": count},
            "template": {
                **({"metadata": {"labels": labels}} if labels else {}),
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {"name": "trainer", "image": "i", "command": command}
                        | ({"env": [{"name": "A", "value": environment}]} if environment else {})
                    ],
                },
            },
        },
    },
    st.integers(1, 8),
    st.integers(1, 8),
    st.sampled_from([["torchrun", "a.py"], ["python3", "a.py", "--nnodes=2"], ["sh", "-c", "a"]]),
    st.text("ab", max_size=2),
    st.dictionaries(st.sampled_from("ab"), st.sampled_from("cd")),
)


@pytest.mark.parametrize("kind", ["TrainJob", "Job"])
@given(job=TRAINING_JOBS)
def test_there_and_back_nothing_is_lost(kind: str, job: dict[str, Any]) -> None:
    before = deepcopy(job)
    *_, other = convert(job, kind).objects
    assert checked(convert(other, None)) == before
    assert job == before


@pytest.mark.parametrize(
    ("gpus", "says"),
    [
        ({"type": "Share", "sharePercent": 50}, "spec.gpus is 50% of a GPU: only Laneway shares GPUs"),
        ({"type": "Memory", "memory": "8Gi"}, "spec.gpus is 8Gi of a GPU's memory: only Laneway"),
    ],
)
def test_what_only_laneway_has_is_named(gpus: dict[str, Any], says: str) -> None:
    job = checked(convert(TRAIN_JOB, None))
    job["spec"] |= {"gpus": gpus, "maxSlowdownPercent": 10, "preemption": {"mode": "Never"}}
    for kind in ("TrainJob", "Job"):
        notes = convert(job, kind).notes
        assert any(note.startswith(says) for note in notes)
        for field in ("spec.maxSlowdownPercent", "spec.preemption.mode"):
            assert f"{field} has no counterpart, and was left out" in notes


def test_a_job_of_several_workers_gets_a_service() -> None:
    service, job = convert(checked(convert(TRAIN_JOB, None)), "Job").objects
    assert (service["kind"], service["metadata"]) == ("Service", {"name": "bert", "namespace": "team"})
    assert job["spec"]["template"]["spec"]["subdomain"] == "bert"


@pytest.mark.parametrize(
    ("given_job", "to", "says"),
    [
        ({"apiVersion": "v1", "kind": "Pod"}, None, "it is a Pod of v1: convert knows TrainingJob"),
        ({"apiVersion": "kubeflow.org/v1", "kind": "Job"}, None, "it is a Job of kubeflow.org/v1"),
        ({"apiVersion": "laneway.dev/v1alpha1", "kind": "TrainingJob"}, None, "already: choose another kind"),
        (BATCH_JOB, "TrainJob", "convert it into a TrainingJob first"),
    ],
)
def test_kinds_that_are_not_converted(given_job: dict[str, Any], to: str | None, says: str) -> None:
    with pytest.raises(WrongKindError, match=says):
        convert(given_job, to)


def test_the_verb_writes_documents_and_names_what_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(yaml.safe_dump_all([TRAIN_JOB, BATCH_JOB]), encoding="utf-8")
    assert main(["convert", "-f", str(path)]) == exit_codes.OK
    out, err = capsys.readouterr()
    assert [each["kind"] for each in yaml.safe_load_all(out)] == ["TrainingJob", "TrainingJob"]
    assert f"{path}, document 2: --rdzv-backend c10d was left out" in err
    assert main(["convert", "-f", str(path), "-o", "json"]) == exit_codes.OK
    assert capsys.readouterr().out.count('"kind": "TrainingJob"') == 2
    container = "{name: a, resources: {limits: {nvidia.com/gpu: 1k}}}"
    for spec in ("{}", f"{{template: {{spec: {{containers: [{container}]}}}}}}"):
        path.write_text(f"{{apiVersion: batch/v1, kind: Job, spec: {spec}}}", encoding="utf-8")
        assert main(["convert", "-f", str(path)]) == exit_codes.USAGE
        assert "document 1: it is no valid Job" in capsys.readouterr().err
