"""Questions about a TrainingJob in the API server's own form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laneway.api.job_conditions import ConditionType, SummaryState

Object = Mapping[str, Any]

ENDED = (ConditionType.COMPLETE, ConditionType.FAILED)


def name(job: Object) -> str:
    """Return a job's name; ``a-*`` where the API server is to generate one that begins with ``a-``."""
    metadata = job.get("metadata") or {}
    return str(metadata.get("name") or f"{metadata.get('generateName', '')}*")


def status(job: Object) -> Object:
    """Return a job's status; empty before the operator's first visit."""
    return job.get("status") or {}


def state(job: Object) -> str:
    """Return a job's state: the one that ``kubectl get tj`` shows."""
    return str(status(job).get("state") or SummaryState.PENDING)


def conditions(job: Object) -> list[Object]:
    """Return a job's conditions."""
    return list(status(job).get("conditions") or ())


def condition_holds(job: Object, type_: str) -> bool:
    """Whether a condition is True."""
    return any(item["type"] == type_ and item["status"] == "True" for item in conditions(job))


def finished(job: Object) -> bool:
    """Whether the job has completed or failed."""
    return any(condition_holds(job, type_) for type_ in ENDED)


def waiting(job: Object) -> Object | None:
    """Return ``status.waiting``; None for a job that does not wait."""
    found = status(job).get("waiting")
    return found if found and not finished(job) else None


def workers(job: Object) -> int:
    """Return the number of workers of a job's current attempt; while it has none, of its next one."""
    return int(status(job).get("workers") or job["spec"].get("workers", 1))


def ranks(job: Object) -> int:
    """Return how many ranks a job has or had in its last attempt, or is to have."""
    return max(int(status(job).get("attemptWorkers", 0)), int(job["spec"].get("workers", 1)))
