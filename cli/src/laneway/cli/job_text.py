"""A TrainingJob in words: its state, what it asks for, where it is, why it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laneway.api import clock_text, quantity

Object = Mapping[str, Any]


def state(job: Object) -> str:
    """Return a job's state as one word: what its conditions and status come to."""
    status = _status(job)
    for condition in ("Succeeded", "Failed", "Running"):
        if condition_holds(job, condition):
            return condition
    if status.get("placement"):
        return stands_aside(job) or "Starting"
    if job["spec"].get("suspend"):
        return "Suspended"
    if condition_holds(job, "Preempted"):
        return "Preempted"
    return "Waiting"


def stands_aside(job: Object) -> str:
    """Return ``Paused`` or ``Offloaded`` for a job that has made way without ending; empty for others."""
    making_way = _status(job).get("preemption") or {}
    if not making_way.get("reachedAt"):
        return ""
    return {"Pause": "Paused", "Offload": "Offloaded"}.get(making_way["depth"], "")


def finished(job: Object) -> bool:
    """Whether the job has ended, well or not."""
    return condition_holds(job, "Succeeded") or condition_holds(job, "Failed")


def condition_holds(job: Object, type_: str) -> bool:
    """Whether a condition is there and True."""
    return any(item["type"] == type_ and item["status"] == "True" for item in conditions(job))


def conditions(job: Object) -> list[Object]:
    """Return a job's conditions."""
    return list(_status(job).get("conditions") or ())


def asks_for(job: Object) -> str:
    """Say what a job asks for: ``2 × 50% GPU``, ``4 × 2 GPUs``, ``8Gi of a GPU``."""
    spec = job["spec"]
    gpus = spec["gpus"]
    if gpus.get("memory") is not None:
        part = f"{gpus['memory']} of a GPU"
    elif gpus.get("share") is not None:
        part = f"{gpus['share']}% GPU"
    else:
        part = f"{gpus['perWorker']} GPU{'s' if gpus['perWorker'] > 1 else ''}"
    workers = spec.get("workers", 1)
    return part if workers == 1 else f"{workers} × {part}"


def where(job: Object) -> list[str]:
    """Return a line for each placed worker: its rank, node, GPUs and share."""
    return [
        f"worker {item['worker']} on {item['node']}: {', '.join(item.get('gpus') or ())} ({item['sharePercent']}%)"
        for item in _status(job).get("placement") or ()
    ]


def waiting(job: Object) -> Object | None:
    """Return why a job waits, as its status has it; None while it does not wait."""
    found = _status(job).get("waiting")
    return found if found and not finished(job) else None


def service(job: Object) -> str:
    """Return the service that a job has attained, as of when it was last counted."""
    seconds = float(quantity.parse(_status(job).get("attainedService") or "0"))
    return f"{seconds:.0f} GPU-s"


def age(job: Object, now_seconds: float) -> str:
    """Return how long a job has been there."""
    created = job["metadata"].get("creationTimestamp")
    return span(now_seconds - clock_text.to_seconds(created)) if created else "-"


def span(seconds: float) -> str:
    """Return a time as people say it: ``42s``, ``7m30s``, ``3h5m``, ``2d4h``."""
    whole = max(0, int(seconds))
    for unit, size, smaller, smaller_size in (
        ("d", 86400, "h", 3600),
        ("h", 3600, "m", 60),
        ("m", 60, "s", 1),
    ):
        if whole >= size:
            rest = whole % size // smaller_size
            return f"{whole // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole}s"


def explained(job: Object, now_seconds: float) -> list[str]:
    """Say in a few lines why a job waits and what would let it run, or what it does instead."""
    name = job["metadata"]["name"]
    now = state(job)
    reason = waiting(job)
    if now in ("Running", "Starting"):
        return [f"{name} does not wait: it is {now.lower()}.", *_makes_way(job), *where(job)]
    if finished(job):
        ending = next(item for item in conditions(job) if item["type"] == now and item["status"] == "True")
        return [f"{name} does not wait: it has {now.lower()} ({ending['reason']}).", ending["message"]]
    if reason is None:
        if not conditions(job):
            return [
                f"{name} has not been looked at yet.",
                "If this lasts, the operator may be down: kubectl get pods --all-namespaces -l app.kubernetes.io/part-of=laneway",
            ]
        return [f"{name} is about to be considered.", *_latest(job)]
    lines = [f"{name} waits: {reason['message']} ({reason['reason']})"]
    if reason.get("unblock"):
        lines.append(f"What would let it run: {reason['unblock']}")
    lines += _makes_way(job)
    if reason.get("alternatives"):
        lines.append(f"It would start now with: {'; or '.join(reason['alternatives'])}.")
    if reason.get("position"):
        ahead = f"; before it: {', '.join(reason['ahead'])}" if reason.get("ahead") else ""
        queue = _status(job).get("queue", 0)
        lines.append(f"Its place among the waiting jobs: {reason['position']} (queue {queue}){ahead}.")
    if reason.get("blockers"):
        lines.append(f"It waits for: {', '.join(reason['blockers'])}.")
    if reason.get("since"):
        lines.append(f"It has waited {span(now_seconds - clock_text.to_seconds(reason['since']))}.")
    if reason.get("estimatedStart"):
        left_seconds = clock_text.to_seconds(reason["estimatedStart"]) - now_seconds
        when = f"in about {span(left_seconds)}" if left_seconds >= 1 else "any moment"
        lines.append(f"It may start {when}: an estimate. {reason.get('estimateBasis', '')}".rstrip())
    return lines


def last_made_way(job: Object, now_seconds: float) -> str:
    """Say for whom a job made way the last time that is over, how and when; empty if it never did."""
    made_way = _status(job).get("lastPreemption")
    if not made_way:
        return ""
    ago = span(now_seconds - clock_text.to_seconds(made_way["since"]))
    return f"{ago} ago, by {_HOW[made_way['depth']]}: {made_way['message']}"


def _makes_way(job: Object) -> list[str]:
    """Say for whom a job makes way, if it does."""
    making_way = _status(job).get("preemption")
    if not making_way:
        return []
    lines = [f"It makes way by {_HOW[making_way['depth']]}: {making_way['message']}"]
    if making_way.get("cost"):
        seconds = float(quantity.parse(making_way["cost"]))
        lines.append(f"Beside the wait that costs it about {seconds:.1f} s.")
    return lines


_HOW = {
    "Pause": "pausing; its memory stays on the GPU",
    "Offload": "moving its memory to the host",
    "Evict": "ending; it starts again from its checkpoint",
}
"""How a job makes way, by depth."""


def _latest(job: Object) -> list[str]:
    latest = max(conditions(job), key=lambda item: str(item["lastTransitionTime"]))
    return [str(latest["message"])]


def _status(job: Object) -> Object:
    return job.get("status") or {}
