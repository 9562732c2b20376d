"""A worker's pod: which gang it belongs to, what it holds, and how far it has come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from laneway.api import names, quantity
from laneway.api.pod_requests import pod_requests
from laneway.api.rfc3339 import parse_time
from laneway.api.template_profile import TemplateProfile
from laneway.api.training_job import DEFAULT_GRACE_PERIOD_SECONDS
from laneway.operator.state.records.ownership import Claim, claim_of
from laneway.operator.state.records.trainer_cpus import TrainerCPUs, trainer_cpus
from pydantic import ValidationError

TRAINER = "trainer"
"""The container of this name gets the GPU; where there is none, the first."""

_LONGEST_WORDS = 1000

_KUBELET_REFUSALS = (
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "NodePorts",
    "TaintToleration",
    "TopologyAffinityError",
)
"""And those that begin with ``OutOf``. Source: ``pkg/kubelet/lifecycle/predicate.go`` of Kubernetes."""

_REJECTED = "Pod was rejected: "
"""What a kubelet says of a pod that it does not admit begins so, whatever the reason: ``Evicted``, say, where it is short of disk space."""

_NODE_SHUTDOWNS = ("NodeShutdown", "Terminated")


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """How a worker's process ended."""

    reason: str
    """As the kubelet says: ``OOMKilled``, ``Error``."""

    message: str
    """Its last words: the last line of the termination message, or of the log where the container wrote none. What comes
    before (a traceback, say) is in the pod's log."""

    exit_code: int | None


@dataclass(frozen=True, slots=True)
class WorkerPod:
    """One worker of one attempt, as the cluster has it."""

    namespace: str
    name: str
    uid: str
    job_name: str
    job_uid: str
    rank: int
    attempt: int
    node: str
    """Where it is bound, else where it is pinned; empty where neither can be read."""

    gpus: tuple[str, ...]
    """The GPUs that the operator chose for it."""

    share_percent: int
    """Percent of each of these."""

    phase: str
    deleting: bool
    grace_seconds: int
    """How long it may go on after it was told to end."""

    gone_by_seconds: float | None
    """When its grace period is over; None: it was not told to end."""

    owned: bool
    """Whether its job is its controller, so that Kubernetes deletes it with its job."""

    bound: bool
    priority: int
    started_seconds: float | None
    """When its first container started."""

    finished_seconds: float | None
    """When its last container ended; None while one runs."""

    failure: WorkerFailure | None
    """Set when a container of it failed."""

    refusal: str
    """Why the kubelet did not take it, as a sentence; empty where it did."""

    disruption: str
    """Why the cluster took it away (drain, node pressure, lost node), as a sentence; empty where it did not."""

    unschedulable: str
    """Why kube-scheduler cannot schedule it; empty if kube-scheduler does not report that."""

    unschedulable_since_seconds: float | None
    profile: TemplateProfile | None
    """What was known of its template when it was made: the node counts it with no less."""

    template_hash: str
    """The template that it was made of."""

    image_id: str
    """The digest of the image that its trainer runs, or ran; empty until the kubelet says."""

    requests: Mapping[str, int]
    """What it requests of its node beside shares of GPUs; CPUs in thousandths."""

    waits_for: str
    """What holds its containers back, such as ``ErrImagePull``; empty where nothing does."""

    cpus: TrainerCPUs | None
    """What its trainer has of CPUs; None where they cannot be changed."""

    @property
    def ended(self) -> bool:
        """Whether it ended and holds nothing any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def started(self) -> bool:
        """Whether its containers were started."""
        return self.phase == "Running" or self.ended


def parse_worker_pod(raw: dict[str, Any]) -> WorkerPod:
    """Read a pod that carries our labels.

    Raises:
        ValueError, KeyError: a label that the operator itself writes is missing or wrong, or the pod is somebody else's who has
            copied them.
    """
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    labels = metadata["labels"]
    claim = claim_of(metadata, labels[names.JOB_LABEL], labels[names.JOB_UID_LABEL])
    if claim is Claim.FOREIGN:
        raise ValueError("it has another controller than the job that its labels name: it is no worker of it")
    if metadata["name"] != f"{labels[names.JOB_LABEL]}-{labels[names.RANK_LABEL]}":
        raise ValueError("its name is not that of the worker that its labels name: it is a copy of it")
    annotations = metadata.get("annotations") or {}
    gpus = tuple(uuid for uuid in annotations.get(names.GPUS_ANNOTATION, "").split(",") if uuid)
    phase = status.get("phase", "Pending")
    states = [*_container_states(status)]
    condition = {each["type"]: each for each in status.get("conditions") or ()}
    scheduled = condition.get("PodScheduled") or {}
    unschedulable = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    refusal = _refusal(status)
    disruption = _disruption(condition.get("DisruptionTarget")) or _shutdown(status)
    return WorkerPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        job_name=labels[names.JOB_LABEL],
        job_uid=labels[names.JOB_UID_LABEL],
        rank=int(labels[names.RANK_LABEL]),
        attempt=int(labels[names.ATTEMPT_LABEL]),
        node=spec.get("nodeName") or _pinned_node(spec),
        gpus=gpus,
        share_percent=_percent(spec) // max(1, len(gpus)),
        phase=phase,
        deleting="deletionTimestamp" in metadata,
        grace_seconds=_grace_seconds(metadata, spec),
        gone_by_seconds=_time(metadata.get("deletionTimestamp")),
        owned=claim is Claim.OWNED,
        bound=bool(spec.get("nodeName")),
        priority=spec.get("priority") or 0,
        started_seconds=_started_seconds(states),
        finished_seconds=_finished_seconds(states, phase),
        failure=_failure(status) if phase == "Failed" and not refusal else None,
        refusal=refusal,
        disruption=disruption,
        unschedulable=scheduled.get("message", "no reason given") if unschedulable else "",
        unschedulable_since_seconds=_time(scheduled.get("lastTransitionTime")) if unschedulable else None,
        profile=_profile(annotations.get(names.PROFILE_ANNOTATION)),
        template_hash=annotations.get(names.TEMPLATE_HASH_ANNOTATION, ""),
        image_id=_image_id(spec, status),
        requests=pod_requests(spec),
        waits_for=_waits_for(states),
        cpus=trainer_cpus(trainer_of(spec["containers"]), raw),
    )


def trainer_of(containers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the container that gets the GPU: the one named trainer, else the first."""
    return next((each for each in containers if each.get("name") == TRAINER), containers[0])


def _pinned_node(spec: dict[str, Any]) -> str:
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


def _grace_seconds(metadata: dict[str, Any], spec: dict[str, Any]) -> int:
    granted = metadata.get("deletionGracePeriodSeconds", spec.get("terminationGracePeriodSeconds"))
    return DEFAULT_GRACE_PERIOD_SECONDS if granted is None else int(granted)


def _percent(spec: dict[str, Any]) -> int:
    limits = (trainer_of(spec["containers"]).get("resources") or {}).get("limits") or {}
    return int(quantity.parse(limits.get(names.GPU_PERCENT, 0)))  # 1000 comes back as 1k


def _image_id(spec: dict[str, Any], status: dict[str, Any]) -> str:
    """Return a digest without its registry: the same image may come from a mirror."""
    trainer = trainer_of(spec["containers"]).get("name")
    statuses = status.get("containerStatuses") or ()
    found = next((each.get("imageID") for each in statuses if each.get("name") == trainer), None) or ""
    return str(found).rpartition("@")[2]


def _container_states(status: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(field) or ():
            yield {**container, "init": field == "initContainerStatuses"}


def _started_seconds(states: list[dict[str, Any]]) -> float | None:
    times = []
    for container in states:
        if container["init"]:
            continue
        state = container.get("state") or {}
        started = (state.get("running") or state.get("terminated") or {}).get("startedAt")
        if started:
            times.append(parse_time(started))
    return min(times, default=None)


def _finished_seconds(states: list[dict[str, Any]], phase: str) -> float | None:
    if phase not in ("Succeeded", "Failed"):
        return None
    times = [_time(((each.get("state") or {}).get("terminated") or {}).get("finishedAt")) for each in states]
    return max((time for time in times if time is not None), default=None)


def _failure(status: dict[str, Any]) -> WorkerFailure:
    ended = [
        (container, terminated)
        for container in _container_states(status)
        if (terminated := (container.get("state") or {}).get("terminated"))
        and terminated.get("exitCode", 0) != 0
    ]
    if not ended:
        return WorkerFailure(status.get("reason") or "Failed", status.get("message") or "", None)
    # The trainer's own end says more than that of a container beside it.
    _, terminated = min(ended, key=lambda pair: pair[0].get("name") != TRAINER)
    message = _last_line(terminated.get("message") or "")
    return WorkerFailure(terminated.get("reason") or "Error", message, terminated["exitCode"])


def _profile(text: str | None) -> TemplateProfile | None:
    try:
        return TemplateProfile.model_validate_json(text) if text else None
    except ValidationError:
        return None  # somebody else wrote it; the node ignores it too


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_WORDS] if lines else ""


def _refusal(status: dict[str, Any]) -> str:
    reason, message = status.get("reason") or "", status.get("message") or ""
    if status.get("phase") != "Failed" or reason in _NODE_SHUTDOWNS:
        return ""
    known = reason in _KUBELET_REFUSALS or reason.startswith("OutOf")
    if not known and not message.startswith(_REJECTED):
        return ""
    return f"the kubelet refused it: {reason}: {message or 'no message'}"


def _shutdown(status: dict[str, Any]) -> str:
    reason = status.get("reason") or ""
    if status.get("phase") != "Failed" or reason not in _NODE_SHUTDOWNS:
        return ""
    return f"{reason}: {status.get('message') or 'no message'}"


def _disruption(condition: dict[str, Any] | None) -> str:
    if not condition or condition.get("status") != "True":
        return ""
    return f"{condition.get('reason') or 'Disrupted'}: {condition.get('message') or 'no message'}"


def _waits_for(states: list[dict[str, Any]]) -> str:
    for container in states:
        waiting = (container.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") not in (None, "PodInitializing", "ContainerCreating"):
            return f"container {container.get('name')}: {waiting['reason']}: {waiting.get('message') or 'no message'}"
    return ""


def _time(text: str | None) -> float | None:
    return parse_time(text) if text else None
