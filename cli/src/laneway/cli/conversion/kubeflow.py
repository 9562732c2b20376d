"""A TrainJob of Kubeflow's trainer (``trainer.kubeflow.org/v1alpha1``) and a TrainingJob."""

from __future__ import annotations

from typing import Any

from laneway.api.names import API_VERSION
from laneway.cli.conversion.pods import (
    TRAINER,
    metadata_of,
    note_other_gpus,
    present,
    whole_gpus,
    with_gpus,
    without_gpus,
    without_rendezvous,
)
from laneway.cli.conversion.source import Source
from laneway.sdk.trainers import DEFAULT_IMAGE

TRAIN_JOB_VERSION = "trainer.kubeflow.org/v1alpha1"
_DEFAULT_RUNTIME = "torch-distributed"
_CLUSTER_RUNTIME = "ClusterTrainingRuntime"
_NODE = "node"
"""Kubeflow's name of the workers, and of their container."""

_OF_POD = ("nodeSelector", "affinity", "tolerations", "volumes", "serviceAccountName", "imagePullSecrets")
"""Fields of a pod that ``podTemplateOverrides`` has, too."""


def from_train_job(source: Source) -> dict[str, Any]:
    """Return the TrainingJob of a TrainJob."""
    trainer = source.take("spec", "trainer", default={})
    count, resources = without_gpus(trainer.pop("resourcesPerNode", {}))
    note_other_gpus(source, {"containers": [{"name": TRAINER, "resources": resources}]}, "spec.template.spec")
    processes = trainer.pop("numProcPerNode", None)
    if count is None and isinstance(processes, int):
        count = processes
    if isinstance(processes, int) and processes != (count or 1):
        source.note(
            f"spec.trainer.numProcPerNode is {processes}: Laneway starts a process for each of {count} GPUs"
        )
    elif isinstance(processes, str) and processes not in ("auto", "gpu"):
        source.note(f"spec.trainer.numProcPerNode is {processes}: Laneway starts a process for each GPU")
    container = present(
        {
            "name": TRAINER,
            "image": trainer.pop("image", None),
            "command": trainer.pop("command", None),
            "args": trainer.pop("args", None),
            "env": without_rendezvous(source, trainer.pop("env", []), "spec.trainer.env"),
            "resources": resources,
        }
    )
    _note_runtime(source, container)
    pod = _overrides(source, container)
    template = {
        "metadata": present({key: source.take("spec", key) for key in ("labels", "annotations")}),
        "spec": {"restartPolicy": "Never", **pod, "containers": [container]},
    }
    spec = {
        "workers": trainer.pop("numNodes", 1),
        "gpus": {"type": "Count", "count": count or 1},
        "suspend": source.take("spec", "suspend") or None,
        "activeDeadlineSeconds": source.take("spec", "activeDeadlineSeconds"),
        "template": present(template),
    }
    source.put_back(trainer, "spec", "trainer")
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingJob",
        "metadata": metadata_of(source),
        "spec": present(spec),
    }


def to_train_job(source: Source) -> dict[str, Any]:
    """Return the TrainJob of a TrainingJob; it uses Kubeflow's runtime for PyTorch."""
    containers = source.take("spec", "template", "spec", "containers")
    container = next((each for each in containers if each["name"] == TRAINER), containers[0])
    source.put_back(
        [each for each in containers if each is not container], "spec", "template", "spec", "containers"
    )
    count = whole_gpus(source)
    trainer = {
        "numNodes": source.take("spec", "workers", default=1),
        "numProcPerNode": count,
        "image": container.pop("image", None),
        "command": container.pop("command", None),
        "args": container.pop("args", None),
        "env": container.pop("env", None),
        "resourcesPerNode": with_gpus(container.pop("resources", {}), count),
    }
    overrides = present({key: source.take("spec", "template", "spec", key) for key in _OF_POD})
    if mounts := container.pop("volumeMounts", None):
        overrides["containers"] = [{"name": _NODE, "volumeMounts": mounts}]
    source.take("spec", "template", "spec", "restartPolicy")
    container.pop("name")
    source.put_back(container, "spec", "template", "spec", "containers[trainer]")
    template = source.take("spec", "template", "metadata", default={})
    spec = {
        "runtimeRef": {"name": _DEFAULT_RUNTIME},
        "labels": template.pop("labels", None),
        "annotations": template.pop("annotations", None),
        "suspend": source.take("spec", "suspend") or None,
        "activeDeadlineSeconds": source.take("spec", "activeDeadlineSeconds"),
        "trainer": present(trainer),
    }
    source.put_back(template, "spec", "template", "metadata")
    if overrides:
        spec["podTemplateOverrides"] = [{"targetJobs": [{"name": _NODE}], "spec": overrides}]
    return {
        "apiVersion": TRAIN_JOB_VERSION,
        "kind": "TrainJob",
        "metadata": metadata_of(source),
        "spec": present(spec),
    }


def _note_runtime(source: Source, container: dict[str, Any]) -> None:
    """Take the runtime; a TrainingJob has none, so what it adds has to be written into the template."""
    reference = source.take("spec", "runtimeRef", default={})
    runtime = reference.get("name", _DEFAULT_RUNTIME)
    if reference.get("kind", _CLUSTER_RUNTIME) != _CLUSTER_RUNTIME:
        runtime = f"{runtime}, a {reference['kind']}"
    if runtime != _DEFAULT_RUNTIME:
        source.note(f"spec.runtimeRef is {runtime}: write what its template adds into spec.template")
    if "image" not in container:
        container["image"] = DEFAULT_IMAGE
        source.note(f"spec.trainer.image is missing: {DEFAULT_IMAGE} was written; check it against {runtime}")
    if "command" not in container:
        source.note(f"spec.trainer.command is missing: the image's own runs, not that of {runtime}")


def _overrides(source: Source, container: dict[str, Any]) -> dict[str, Any]:
    """Take what ``podTemplateOverrides`` says about the workers, and return their pod's fields."""
    pod: dict[str, Any] = {}
    left: list[dict[str, Any]] = []
    for override in source.take("spec", "podTemplateOverrides", default=[]):
        if override.get("targetJobs") != [{"name": _NODE}]:
            left.append(override)
            continue
        spec = override.pop("spec", {})
        pod |= present({key: spec.pop(key, None) for key in _OF_POD})
        containers = spec.pop("containers", [])
        for each in containers:
            if each.get("name") == _NODE:
                container["env"] = [*container.get("env", []), *each.pop("env", [])]
                container["volumeMounts"] = [
                    *container.get("volumeMounts", []),
                    *each.pop("volumeMounts", []),
                ]
        for key in ("env", "volumeMounts"):
            if not container.get(key):
                container.pop(key, None)
        others = [each for each in containers if set(each) != {"name"}]
        del override["targetJobs"]
        left.append(present({**override, "spec": present({**spec, "containers": others})}))
    source.put_back([each for each in left if each], "spec", "podTemplateOverrides")
    return pod
