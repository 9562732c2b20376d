"""A TrainJob of Kubeflow's trainer (``trainer.kubeflow.org/v1alpha1``) and a TrainingJob."""

from __future__ import annotations

from collections.abc import Sequence
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

_OF_POD = (
    *("nodeSelector", "affinity", "tolerations", "volumes", "serviceAccountName", "imagePullSecrets"),
    "securityContext",
)
"""Fields of a pod that ``runtimePatches`` has, too."""

_OF_CONTAINER = ("volumeMounts", "securityContext")
"""Fields of the workers' container that ``runtimePatches`` has, too; its variables are the trainer's."""

_MANAGER = "laneway.dev/convert"
_OVERRIDES = ("podTemplateOverrides", "podSpecOverrides")
"""What ``runtimePatches`` was before version 2.2 of Kubeflow's trainer; the second has the fields of a pod's spec beside the target."""

_KEYS = {"volumes": "name", "imagePullSecrets": "name", "env": "name", "volumeMounts": "mountPath"}
"""Lists to which a patch adds, by the key of their items."""


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
    _note_initializer(source)
    note_other_gpus(source, {"containers": [container]}, "spec.template.spec")
    template = {
        "metadata": present({key: source.take("spec", key) for key in ("labels", "annotations")}),
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    _take_overrides(source, template)
    _take_patches(source, template)
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
    pod = present({key: source.take("spec", "template", "spec", key) for key in _OF_POD})
    if own := present({key: container.pop(key, None) for key in _OF_CONTAINER}):
        pod["containers"] = [{"name": _NODE, **own}]
    source.take("spec", "template", "spec", "restartPolicy")
    container.pop("name")
    source.put_back(container, "spec", "template", "spec", "containers[trainer]")
    template = source.take("spec", "template", "metadata", default={})
    metadata = present({key: template.pop(key, None) for key in ("labels", "annotations")})
    spec = {
        "runtimeRef": {"name": _DEFAULT_RUNTIME},
        "suspend": source.take("spec", "suspend") or None,
        "activeDeadlineSeconds": source.take("spec", "activeDeadlineSeconds"),
        "trainer": present(trainer),
    }
    source.put_back(template, "spec", "template", "metadata")
    if patched := present({"metadata": metadata, "spec": pod}):
        job = {"name": _NODE, "template": {"spec": {"template": patched}}}
        patch = {"template": {"spec": {"replicatedJobs": [job]}}}
        spec["runtimePatches"] = [{"manager": _MANAGER, "trainingRuntimeSpec": patch}]
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


def _note_initializer(source: Source) -> None:
    """Say how to do without the jobs that download the data and the model before the workers start."""
    for kind in ("dataset", "model"):
        if initializer := source.take("spec", "initializer", kind):
            source.note(
                f"spec.initializer.{kind} was left out ({initializer.get('storageUri') or 'from its runtime'}): "
                "download it in the script, or by an init container in spec.template"
            )


def _take_overrides(source: Source, template: dict[str, Any]) -> None:
    """Take what the older forms of ``runtimePatches`` say about the workers into their template."""
    for field in _OVERRIDES:
        overrides = source.take("spec", field, default=[])
        for override in overrides:
            if override.get("targetJobs") == [{"name": _NODE}]:
                del override["targetJobs"]
                _merge(template, override if field == "podTemplateOverrides" else {"spec": override})
        source.put_back(overrides, "spec", field)


def _take_patches(source: Source, template: dict[str, Any]) -> None:
    """Take what ``runtimePatches`` say about the workers into their template: labels of their Job, and their pods' fields."""
    patches = source.take("spec", "runtimePatches", default=[])
    for patch in patches:
        for by_the_server in ("manager", "time"):
            patch.pop(by_the_server, None)
        template_patch = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        for job in (template_patch.get("spec") or {}).get("replicatedJobs") or ():
            if job.get("name") == _NODE:
                del job["name"]
                of_job = job.get("template") or {}
                _merge(template, {"metadata": of_job.get("metadata")})
                _merge(template, (of_job.get("spec") or {}).get("template") or {})
    source.put_back(patches, "spec", "runtimePatches")


def _merge(template: dict[str, Any], patch: dict[str, Any]) -> None:
    """Move what a worker may have from a patch of its pod into its template."""
    spec = patch.get("spec") or {}
    _move(("labels", "annotations"), patch.get("metadata") or {}, template["metadata"])
    _move(_OF_POD, spec, template["spec"])
    for container in spec.get("containers") or ():
        if container.get("name") == _NODE:
            del container["name"]
            _move(("env", *_OF_CONTAINER), container, template["spec"]["containers"][0])


def _move(names: Sequence[str], patch: dict[str, Any], fields: dict[str, Any]) -> None:
    """Move fields out of a patch as Kubernetes' strategic merge does: objects and lists with a key are added to."""
    for name in names:
        value, before = patch.pop(name, None), fields.get(name)
        if not value:
            continue
        if name in _KEYS:
            key = _KEYS[name]
            fields[name] = list({each[key]: each for each in (*(before or ()), *value)}.values())
        else:
            fields[name] = {**(before or {}), **value} if isinstance(value, dict) else value
