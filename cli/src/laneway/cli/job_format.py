"""Formats a TrainingJob for people: its state, its request, its placement, and why it does not run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from laneway.api import rfc3339
from laneway.api.durations import duration
from laneway.api.job_conditions import ELASTIC_POLICY_DECIDES, ConditionType, SummaryState
from laneway.api.job_names import jobs_elsewhere
from laneway.api.names import OPERATOR_MANAGER
from laneway.api.pod_requests import amounts
from laneway.api.training_job import GPURequestType
from laneway.api.training_job_status import ProfileStatus
from laneway.scheduling.explain.data_wait import data_wait, suggestion
from laneway.sdk import TrainingJob
from laneway.sdk.job_object import conditions, finished, state, status, waiting, workers

Object = Mapping[str, Any]

OPERATOR_SELECTOR = "app.kubernetes.io/part-of=laneway,app.kubernetes.io/component=operator"
"""Selects the operator's pods; the labels are the chart's."""

_ENDED = {ConditionType.COMPLETE: "completed", ConditionType.FAILED: "failed"}

_ACTIONS = {
    "Pause": "paused; its memory stays on the GPU",
    "Offload": "offloaded; its memory moves to the host",
    "Evict": "evicted; it restarts from its checkpoint",
}
"""The effect of each preemption action."""


def state_and_reason(job: Object) -> str:
    """Return a job's state, with the reason if there is one: ``Pending (GPUsBusy)``."""
    reason = status(job).get("reason")
    return f"{state(job)} ({reason})" if reason else state(job)


def scaling(job: Object) -> str:
    """Return how many workers an elastic job has and may have; empty for any other job."""
    spec = job["spec"]
    if spec.get("minWorkers") is None:
        return ""
    has = status(job).get("workers", 0)
    failed = [str(each["workers"]) for each in status(job).get("failedWorkers") or () if each.get("avoided")]
    without = f", except {', '.join(sorted(failed, key=int))} (failed)" if failed else ""
    return f"{has} now; {spec.get('workers', 1)} in the spec; {spec['minWorkers']} to {spec.get('maxWorkers')} possible{without}"


def last_rescale(job: Object, now_seconds: float) -> str:
    """Return when a job was last rescaled, and what that cost, or that it restarts for that; empty if it never was."""
    rescale = status(job).get("rescale")
    if not rescale:
        return ""
    ago = duration(now_seconds - rfc3339.parse_time(rescale["since"]))
    if status(job).get("attempt") == rescale["attempt"]:
        return f"{ago} ago. {rescale['message']}"
    cost = rescale.get("costMilliseconds")
    lost = "" if cost is None else f"; {cost / 1000:.0f} s without training"
    return f"{ago} ago, from {rescale['fromWorkers']} to {rescale['toWorkers']} workers{lost}"


def pending_rescale(job: Object) -> str:
    """Return why an elastic job runs on with other workers than its spec asks for; empty where it does not."""
    pending = next((item for item in conditions(job) if item["type"] == ConditionType.RESCALE_PENDING), None)
    if pending is None or (pending["status"] != "True" and pending["reason"] != ELASTIC_POLICY_DECIDES):
        return ""
    return f"{pending['message']} ({pending['reason']})"


def requested(job: Object) -> str:
    """Return a job's request: ``2 × 50% GPU``, ``4 × 2 GPUs``, ``8Gi of a GPU``; of an elastic job what it has now."""
    spec = job["spec"]
    gpus = spec["gpus"]
    if gpus["type"] == GPURequestType.MEMORY:
        part = f"{gpus['memory']} of a GPU"
    elif gpus["type"] == GPURequestType.SHARE:
        part = f"{gpus['sharePercent']}% GPU"
    else:
        part = f"{gpus['count']} GPU{'s' if gpus['count'] > 1 else ''}"
    number = workers(job)
    return part if number == 1 else f"{number} × {part}"


def placement(job: Object) -> list[str]:
    """Return a line for each placed worker: its rank, node, GPUs and share."""
    return [
        f"worker {item['worker']} on {item['node']}: {', '.join(item.get('gpus') or ())} ({item['sharePercent']}%)"
        for item in status(job).get("placement") or ()
    ]


def attained_service(job: Object, now_seconds: float) -> str:
    """Return the attained service: what the status has counted, and what the placement has attained since then."""
    counted = status(job)
    attained_seconds = counted.get("attainedServiceGPUMilliseconds", 0) / 1000
    if counted_at := counted.get("serviceCountedAt"):
        placement = counted.get("placement") or ()
        gpus = sum(len(each.get("gpus") or ()) * min(each["sharePercent"], 100) / 100 for each in placement)
        attained_seconds += gpus * max(0.0, now_seconds - rfc3339.parse_time(counted_at))
    return f"{attained_seconds:.0f} GPU-s"


def age(job: Object, now_seconds: float) -> str:
    """Return the time since the job was created."""
    created = job["metadata"].get("creationTimestamp")
    return duration(now_seconds - rfc3339.parse_time(created)) if created else "-"


def explanation(job: Object, now_seconds: float) -> list[str]:
    """Return why a job does not run and what would let it run, or what it does instead, in a few lines."""
    name = job["metadata"]["name"]
    now = state(job)
    if controller := other_controller(job):
        ignored = "Laneway's operator ignores it: its status is what that controller writes."
        return [f"{name} is managed by {controller} (spec.managedBy).", ignored]
    if finished(job):
        last = next(item for item in conditions(job) if item["type"] in _ENDED and item["status"] == "True")
        return [f"{name} has {_ENDED[last['type']]} ({last['reason']}).", last["message"]]
    if not conditions(job):
        return [
            f"The operator has not seen {name} yet.",
            f"If this lasts, check the operator: kubectl get pods --all-namespaces -l {OPERATOR_SELECTOR}",
        ]
    wait = waiting(job)
    if wait is not None:
        return [
            f"{name} is {now.lower()}: {wait['message']} ({wait['reason']})",
            *_waiting_lines(job, wait, now_seconds),
        ]
    if now in (SummaryState.RUNNING, SummaryState.STARTING):
        pending = [text] if (text := pending_rescale(job)) else []
        lines = [*pending, *_preemption_lines(job), *placement(job), *data_wait_lines(job)]
        return [f"{name} is {now.lower()}.", *lines]
    latest = max(conditions(job), key=lambda item: str(item["lastTransitionTime"]))
    reason = status(job).get("reason")
    return [f"{name} is {now.lower()}{f' ({reason})' if reason else ''}.", str(latest["message"])]


def data_wait_lines(job: Object) -> tuple[str, ...]:
    """Return how a job waits for data, and what would end the wait; empty if it does not wait, or if it was not measured."""
    try:
        profile = ProfileStatus.model_validate(status(job).get("profile") or {})
        cpu_millis = _trainer_cpu_millis(job)
    except ValueError:
        return ()  # written by another version
    gpus = job["spec"]["gpus"]
    wait = data_wait(profile, cpu_millis, gpus.get("count", 1) if gpus["type"] == GPURequestType.COUNT else 1)
    return () if wait is None else suggestion(wait, cpu_millis)


def _trainer_cpu_millis(job: Object) -> int:
    """Return the CPUs that the trainer has been given, or else is limited to, or else requests, in thousandths; 0: none is known."""
    if allocated := (status(job).get("cpus") or {}).get("allocated"):
        return amounts({"cpu": allocated})["cpu"]
    pod = (job["spec"].get("template") or {}).get("spec") or {}
    containers = list(pod.get("containers") or ())
    trainers = [each for each in containers if each.get("name") == "trainer"] or containers[:1]
    resources = (trainers[0].get("resources") or {}) if trainers else {}
    for kind in ("limits", "requests"):
        found = amounts(resources.get(kind) or {}).get("cpu")
        if found:
            return found
    return 0


def other_controller(job: Object) -> str:
    """Return the controller that runs the job by ``spec.managedBy``; empty where Laneway's operator does."""
    controller = job["spec"].get("managedBy")
    return "" if controller in (None, OPERATOR_MANAGER) else str(controller)


def last_preemption(job: Object, now_seconds: float) -> str:
    """Return when and how a job was last preempted; empty if it never was."""
    last = status(job).get("lastPreemption")
    if not last:
        return ""
    ago = duration(now_seconds - rfc3339.parse_time(last["since"]))
    return f"{ago} ago, {_ACTIONS[last['action']]}: {last['message']}"


def ended_attempts(job: Object, now_seconds: float) -> list[list[str]]:
    """Return a row for each ended attempt that the status still has: what it did, what it lost, and why it ended."""
    return [
        [
            str(each.attempt),
            f"{duration(now_seconds - each.ended_at.timestamp())} ago",
            duration((each.ended_at - each.started_at).total_seconds()),
            str(each.num_nodes),
            f"{each.gpu_seconds:.0f}",
            "unknown" if each.lost_gpu_seconds is None else f"{each.lost_gpu_seconds:.0f}",
            each.outcome,
            each.reason,
            " ".join(each.message.split()),
        ]
        for each in TrainingJob(job).ended_attempts
    ]


def _waiting_lines(job: Object, wait: Object, now_seconds: float) -> Iterator[str]:
    if wait.get("unblock"):
        yield f"To run: {wait['unblock']}"
    yield from _preemption_lines(job)
    if wait.get("alternatives"):
        yield f"It would start now with: {'; or '.join(wait['alternatives'])}."
    if wait.get("position"):
        jobs = _jobs(wait, "ahead")
        ahead = f"; ahead of it: {jobs}" if jobs else ""
        yield f"Position: {wait['position']} of the waiting jobs (queue {status(job).get('queue', 0)}){ahead}."
    if holders := _jobs(wait, "blockers"):
        yield f"Its GPUs are held by: {holders}."
    if wait.get("since"):
        yield f"Waiting for {duration(now_seconds - rfc3339.parse_time(wait['since']))}."
    if wait.get("estimatedStart"):
        left_seconds = rfc3339.parse_time(wait["estimatedStart"]) - now_seconds
        when = f"in about {duration(left_seconds)}" if left_seconds >= 1 else "any moment"
        yield f"Estimated start: {when}. {wait.get('estimateBasis', '')}".rstrip()
    yield from _speed_lines(wait)


def _jobs(wait: Object, field: str) -> str:
    """Return the jobs that a field of ``waiting`` names, and the number of those that it does not."""
    elsewhere = wait.get(f"{field}Elsewhere") or 0
    return ", ".join([*(wait.get(field) or ()), *([jobs_elsewhere(elsewhere)] if elsewhere else [])])


def _speed_lines(wait: Object) -> Iterator[str]:
    """Yield how fast the job runs on the GPU models that it can use, and which of that is an estimate."""
    for each in sorted(wait.get("speeds") or (), key=lambda speed: -speed["percent"]):
        how = "measured" if each["basis"] == "Measured" else f"an estimate {each['source']}"
        yield f"Speed on {each['model']}: {each['percent']}% of the fastest of its models ({how})."


def _preemption_lines(job: Object) -> Iterator[str]:
    preemption = status(job).get("preemption")
    if not preemption:
        return
    yield f"Preempted, {_ACTIONS[preemption['action']]}: {preemption['message']}"
    if preemption.get("costMilliseconds"):
        yield f"Expected cost besides the wait: about {preemption['costMilliseconds'] / 1000:.1f} s on each GPU."
