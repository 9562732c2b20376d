"""A ``batch/v1`` Job whose pods run ``torchrun``, and a TrainingJob."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count as counted_from
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
from laneway.cli.conversion.torchrun import Torchrun, parse_torchrun

JOB_VERSION = "batch/v1"
_PORT = 29500
_SAME = ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend")
"""Fields that both kinds have, with one meaning; Laneway restarts the whole gang."""

_INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
_BY_THE_JOB_CONTROLLER = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)


def from_batch_job(source: Source) -> dict[str, Any]:
    """Return the TrainingJob of a Job."""
    template = source.take("spec", "template", default={})
    pod = template.get("spec") or {}
    container = _trainer_of(source, pod)
    torchrun = _without_place(source, container)
    count, container["resources"] = without_gpus(container.get("resources") or {})
    processes = torchrun.processes if torchrun else None
    gpus = count or processes or 1
    if processes and processes != gpus:
        source.note(f"--nproc-per-node is {processes}: Laneway starts a process for each of {gpus} GPUs")
    where = f"spec.template.spec.containers[{container['name']}].env"
    container["env"] = without_rendezvous(source, container.get("env") or [], where)
    completions, parallelism = source.take("spec", "completions"), source.take("spec", "parallelism")
    workers = parallelism or completions or 1
    if parallelism == 0:
        source.note("spec.parallelism is 0: the job is suspended, and resumes with spec.suspend: false")
    if completions not in (None, workers):
        source.note(
            f"spec.completions is {completions}: a TrainingJob runs its {workers} workers once, at the same time"
        )
    for field in ("subdomain", "hostname", "nodeName"):
        if pod.pop(field, None):
            source.note(f"spec.template.spec.{field} was left out: Laneway sets it")
    fewest, most = (torchrun.nodes if torchrun else None) or (workers, workers)
    _take_controllers_fields(source, template)
    workers = min(max(workers, fewest), most)
    if torchrun:
        _note_size(source, torchrun, workers, gpus)
    spec = {
        "workers": workers,
        "minWorkers": fewest if fewest != most else None,
        "maxWorkers": most if fewest != most else None,
        "gpus": {"type": "Count", "count": gpus},
        **{field: source.take("spec", field) for field in _SAME},
    }
    if parallelism == 0:
        spec["suspend"] = True
    note_other_gpus(source, pod, "spec.template.spec")
    containers = [present(each) for each in pod["containers"]]
    template["spec"] = {**pod, "restartPolicy": "Never", "containers": containers}
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingJob",
        "metadata": metadata_of(source),
        "spec": present({**spec, "template": present(template)}),
    }


def to_batch_job(source: Source) -> list[dict[str, Any]]:
    """Return the Job of a TrainingJob; with several workers, the Service by which they find each other comes first."""
    count, workers = whole_gpus(source), source.take("spec", "workers", default=1)
    template = source.take("spec", "template")
    containers = template["spec"]["containers"]
    container = next((each for each in containers if each["name"] == TRAINER), containers[0])
    container["resources"] = with_gpus(container.get("resources") or {}, count)
    metadata = metadata_of(source)
    name = metadata.get("name") or metadata["generateName"].rstrip("-")
    if workers * count > 1:
        container["env"] = [*(container.get("env") or []), *_rendezvous(name, workers, count)]
    if workers > 1:
        template["spec"]["subdomain"] = name
        template["spec"].setdefault("restartPolicy", "Never")
        source.note("a Job starts its pods one by one, and restarts one alone: it is no gang")
    template["spec"].setdefault("restartPolicy", "Never")
    spec = {
        "completions": workers,
        "parallelism": workers,
        "completionMode": "Indexed",
        **{field: source.take("spec", field) for field in _SAME},
        "template": template,
    }
    job = {"apiVersion": JOB_VERSION, "kind": "Job", "metadata": metadata, "spec": present(spec)}
    return [_service(name, metadata), job] if workers > 1 else [job]


def _trainer_of(source: Source, pod: dict[str, Any]) -> dict[str, Any]:
    """Return the container that requests GPUs, or runs torchrun, else the first one; it gets the name that Laneway knows."""
    containers: list[dict[str, Any]] = pod["containers"]
    chosen = next(
        (each for each in containers if without_gpus(each.get("resources") or {})[0]), containers[0]
    )
    if len(containers) > 1 and chosen["name"] != TRAINER:
        renamed = _free_trainers_name(source, [*containers, *(pod.get("initContainers") or [])])
        source.note(f"container {chosen['name']} was renamed to {TRAINER}: Laneway gives it the GPUs")
        renamed[chosen["name"]] = TRAINER
        chosen["name"] = TRAINER
        _refer_to(renamed, pod)
    return chosen


def _refer_to(renamed: Mapping[str, str], within: Any) -> None:
    """Rename containers where variables and volumes refer to their resources."""
    if isinstance(within, dict):
        for key, value in within.items():
            if key == "resourceFieldRef" and isinstance(value, dict) and "containerName" in value:
                value["containerName"] = renamed.get(value["containerName"], value["containerName"])
            _refer_to(renamed, value)
    elif isinstance(within, list):
        for each in within:
            _refer_to(renamed, each)


def _free_trainers_name(source: Source, containers: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Rename the container that has the trainer's name and gets no GPUs; return its new name by the old one.

    A pod's containers and init containers have different names.
    """
    taken = {each["name"] for each in containers}
    other = next((each for each in containers if each["name"] == TRAINER), None)
    if other is not None:
        other["name"] = next(name for i in counted_from(2) if (name := f"{TRAINER}-{i}") not in taken)
        source.note(
            f"container {TRAINER}, which requests no GPUs, was renamed to {other['name']}: Laneway gives its GPUs to the container {TRAINER}"
        )
    return {} if other is None else {TRAINER: other["name"]}


def _without_place(source: Source, container: dict[str, Any]) -> Torchrun | None:
    """Take the options of torchrun out of a container's command that Laneway sets."""
    command, arguments = container.get("command") or [], container.get("args") or []
    torchrun = parse_torchrun([*command, *arguments])
    if torchrun is not None:
        container.pop("args", None)
        container["command"] = torchrun.command
        for name, value in torchrun.removed.items():
            if name not in ("nnodes", "nproc-per-node"):
                source.note(
                    f"--{name} {value}".rstrip() + " was left out: Laneway sets where the workers are"
                )
    elif any("torchrun" in word or "torch.distributed" in word for word in (*command, *arguments)):
        source.note(
            "the command runs torchrun in a shell: remove its options --nnodes, --nproc-per-node, --node-rank, --master-addr and "
            "--rdzv-…, because they replace what Laneway sets"
        )
    return torchrun


def _note_size(source: Source, torchrun: Torchrun, workers: int, gpus: int) -> None:
    """Say where the number of nodes and of processes went that torchrun was given."""
    if nodes := torchrun.removed.get("nnodes"):
        fewest, most = torchrun.nodes or (workers, workers)
        elastic = f", spec.minWorkers: {fewest} and spec.maxWorkers: {most}" if fewest != most else ""
        source.note(f"--nnodes {nodes} is now spec.workers: {workers}{elastic}")
    processes = torchrun.removed.get("nproc-per-node")
    if processes and torchrun.processes in (None, gpus):
        source.note(
            f"--nproc-per-node {processes} is now spec.gpus.count: {gpus}, with a process for each GPU"
        )


def _take_controllers_fields(source: Source, template: dict[str, Any]) -> None:
    """Take what Kubernetes writes into a Job, or what a TrainingJob does anyway."""
    source.take("spec", "completionMode")
    if not source.take("spec", "manualSelector"):
        source.take("spec", "selector")
    if source.take("spec", "podReplacementPolicy") == "TerminatingOrFailed":
        source.note(
            "spec.podReplacementPolicy was left out: a gang starts again when all of its pods are gone"
        )
    metadata = template.get("metadata") or {}
    labels = {
        key: value
        for key, value in (metadata.get("labels") or {}).items()
        if key not in _BY_THE_JOB_CONTROLLER
    }
    metadata.pop("creationTimestamp", None)
    template["metadata"] = present({**metadata, "labels": labels})


def _rendezvous(name: str, workers: int, count: int) -> list[dict[str, Any]]:
    """Return the variables that Laneway sets in a worker, for a Job."""
    address = f"{name}-0.{name}" if workers > 1 else "localhost"
    values = {
        "PET_NNODES": str(workers),
        "PET_NPROC_PER_NODE": str(count),
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": str(_PORT),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(_PORT),
        "WORLD_SIZE": str(workers),
    }
    ranks = [{"name": each, "valueFrom": _INDEX} for each in ("PET_NODE_RANK", "RANK")]
    return [*ranks, *({"name": key, "value": value} for key, value in values.items())]


def _service(name: str, metadata: dict[str, Any]) -> dict[str, Any]:
    place = present({"name": name, "namespace": metadata.get("namespace")})
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"batch.kubernetes.io/job-name": name},
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": place, "spec": spec}
