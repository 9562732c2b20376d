"""The objects that the operator makes: a pod for each worker, and a headless Service for all gangs of a namespace.

A worker's pod has the same name in every attempt, so the API server itself refuses to run a worker twice. The pod is pinned
to its node by a required node affinity and goes through kube-scheduler as any other: taints, volumes, CPU and memory keep
their meaning. With ``bindPods`` some pods are bound when they are created (:mod:`laneway.operator.cycle.binding`).
"""

from __future__ import annotations

import copy
from typing import Any

from laneway.api import names
from laneway.api.template_profile import TemplateProfile
from laneway.api.training_job import FitMode, TrainingJobSpec
from laneway.api.training_job_status import WorkerPlacementStatus
from laneway.operator.state.eligibility import worker_tolerations
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.template_hash import template_hash
from laneway.operator.state.records.worker_pod import trainer_of
from laneway.operator.state.resources import PODS, SERVICES, TRAINING_JOBS

RENDEZVOUS_PORT = 29500
"""PyTorch's own default for MASTER_PORT."""

_USERS_PYTHONPATH = "LANEWAY_USERS_PYTHONPATH"


def worker_name(job: str, rank: int) -> str:
    """Return the name of a worker's pod, which is its host name too."""
    return f"{job}-{rank}"


def worker_pod(
    job: JobRecord,
    spec: TrainingJobSpec,
    worker: WorkerPlacementStatus,
    attempt: int,
    profile: TemplateProfile | None = None,
    *,
    batch: int = 0,
    bound: bool = False,
    runtime_class: str = "",
) -> dict[str, Any]:
    """Return the pod of one worker.

    Args:
        job: whose worker.
        spec: what its user asks for, with the attempt's number of workers.
        worker: which one, and where it goes.
        attempt: which start of the gang it belongs to.
        profile: what is known of the job's template.
        batch: the samples of a step of all workers that were chosen for the attempt; 0: none were.
        bound: whether it is created on its node, without kube-scheduler.
        runtime_class: of a worker whose template names none; empty: the node's default.
    """
    template = copy.deepcopy(spec.template)
    given = template.get("metadata") or {}
    pod_spec: dict[str, Any] = template["spec"]
    name = worker_name(job.name, worker.worker)
    _pin(pod_spec, worker.node)
    pod_spec["tolerations"] = worker_tolerations(pod_spec)
    if bound:
        pod_spec["nodeName"] = worker.node
    if runtime_class:
        pod_spec.setdefault("runtimeClassName", runtime_class)
    trainer = trainer_of(pod_spec["containers"])
    resources = trainer.setdefault("resources", {})
    resources["limits"] = {
        **(resources.get("limits") or {}),
        names.GPU_PERCENT: str(worker.share_percent * len(worker.gpus)),
    }
    trainer["env"] = _environment(trainer.get("env") or [], job, spec, worker.worker, batch)
    # Where the script writes no termination message, its last log lines say why it failed.
    trainer.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    if spec.effective_priority_class_name:
        pod_spec["priorityClassName"] = spec.effective_priority_class_name
    # The CRD refuses templates with another host name or subdomain; one stored before it did may have them.
    pod_spec.update(
        restartPolicy="Never",
        hostname=name,
        subdomain=names.GANG_SERVICE,
        terminationGracePeriodSeconds=spec.effective_grace_period_seconds,
    )
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {**(given.get("labels") or {}), **_labels(job, spec, worker, attempt)},
            "annotations": {**(given.get("annotations") or {}), **_annotations(spec, worker, profile)},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": pod_spec,
    }


def _labels(
    job: JobRecord, spec: TrainingJobSpec, worker: WorkerPlacementStatus, attempt: int
) -> dict[str, str]:
    labels = {
        names.JOB_LABEL: job.name,
        names.JOB_UID_LABEL: job.uid,
        names.RANK_LABEL: str(worker.worker),
        names.ATTEMPT_LABEL: str(attempt),
    }
    if spec.workers > 1:
        labels[names.GANG_LABEL] = "true"
    return labels


def _annotations(
    spec: TrainingJobSpec, worker: WorkerPlacementStatus, profile: TemplateProfile | None
) -> dict[str, str]:
    annotations = {
        names.GPUS_ANNOTATION: ",".join(worker.gpus),
        names.TEMPLATE_HASH_ANNOTATION: template_hash(spec),
        names.SPANS_GPUS_ANNOTATION: "true" if spec.spans_gpus else "false",
        names.SHARING_ANNOTATION: str(spec.sharing),
    }
    if spec.minimum_enforcement:
        annotations[names.MINIMUM_ENFORCEMENT_ANNOTATION] = spec.minimum_enforcement
    if profile:
        annotations[names.PROFILE_ANNOTATION] = profile.model_dump_json()
    return annotations


def gang_service(namespace: str) -> dict[str, Any]:
    """Return the headless Service that gives each worker of a gang a name in DNS, from before it is ready."""
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": {
            "name": names.GANG_SERVICE,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": names.OPERATOR_FIELD_MANAGER},
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.GANG_LABEL: "true"},
            "ports": [{"name": "rendezvous", "port": RENDEZVOUS_PORT, "protocol": "TCP"}],
        },
    }


def owner_reference(job: JobRecord) -> dict[str, Any]:
    """Return what makes a job the controller of an object."""
    return {
        "apiVersion": TRAINING_JOBS.api_version,
        "kind": TRAINING_JOBS.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _pin(pod_spec: dict[str, Any], node: str) -> None:
    """Require the node. Terms are alternatives, so each of the user's own gets the node as a further condition."""
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = pod_spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or [{}]
    pinned = [{**term, "matchFields": [*(term.get("matchFields") or []), here]} for term in terms]
    pod_spec["affinity"] = {
        **affinity,
        "nodeAffinity": {
            **node_affinity,
            "requiredDuringSchedulingIgnoredDuringExecution": {**required, "nodeSelectorTerms": pinned},
        },
    }


def _environment(
    given: list[dict[str, Any]], job: JobRecord, spec: TrainingJobSpec, rank: int, batch: int
) -> list[dict[str, Any]]:
    """Return the trainer's environment; a variable that the template sets wins."""
    ours = {"LANEWAY_JOB": job.name, **_rendezvous(job, spec, rank)}
    if spec.memory_fit != FitMode.AUTO:  # the client's own default
        ours["LANEWAY_FIT"] = str(spec.memory_fit)
    if batch:
        ours["LANEWAY_BATCH"] = str(batch)
    own = {each["name"] for each in given}
    environment = [{"name": name, "value": value} for name, value in ours.items() if name not in own]
    for each in given:
        environment += _pythonpath(each) if each["name"] == "PYTHONPATH" else [each]
    return environment


def _rendezvous(job: JobRecord, spec: TrainingJobSpec, rank: int) -> dict[str, str]:
    """Return how the job's processes find each other; empty for one worker with one process, which has no peers and will have none.

    A gang with one process a worker reads ``torch.distributed``'s own variables. ``torchrun`` reads the ``PET_`` variables in place
    of its arguments, as in Kubeflow's trainer, and starts one process for each GPU of the worker.
    """
    if not spec.spans_gpus and not spec.elastic:
        return {}
    address = f"{worker_name(job.name, 0)}.{names.GANG_SERVICE}" if spec.workers > 1 else "localhost"
    variables = {
        "PET_NNODES": str(spec.workers),
        "PET_NPROC_PER_NODE": str(spec.gpus_per_worker),
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": str(RENDEZVOUS_PORT),
    }
    if spec.workers > 1 or spec.elastic:
        variables |= {
            "MASTER_ADDR": address,
            "MASTER_PORT": str(RENDEZVOUS_PORT),
            "WORLD_SIZE": str(spec.workers),
            "RANK": str(rank),
            "LOCAL_RANK": "0",
        }
    return variables


def _pythonpath(given: dict[str, Any]) -> list[dict[str, Any]]:
    """A PYTHONPATH in the template hides the device plugin's, so the client's folder is put in front of it."""
    client = names.CONTAINER_CLIENT_FOLDER
    if "valueFrom" in given:
        users = {"name": _USERS_PYTHONPATH, "valueFrom": given["valueFrom"]}
        return [users, {"name": "PYTHONPATH", "value": f"{client}:$({_USERS_PYTHONPATH})"}]
    value = given.get("value") or ""
    return [{"name": "PYTHONPATH", "value": f"{client}:{value}" if value else client}]
