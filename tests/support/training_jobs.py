"""Builders of TrainingJobs in the API server's form."""

from __future__ import annotations

from typing import Any

from laneway.api.conditions import Condition
from laneway.api.job_conditions import summarize

CREATED = "2026-01-31T12:00:00Z"
CREATED_SECONDS = 1769860800.0


def a_job(
    name: str = "digits", *, gpus: dict[str, Any] | None = None, workers: int = 1, **status: Any
) -> dict[str, Any]:
    """A TrainingJob with a status of these fields; a placement adds the condition Placed, and the summary follows."""
    placed = [a_condition("Placed")] if status.get("placement") else []
    conditions = [*placed, *status.get("conditions", ())]
    if conditions:
        waiting_reason = status.get("waiting", {}).get("reason", "")
        state, reason = summarize([Condition.model_validate(each) for each in conditions], waiting_reason)
        status |= {"conditions": conditions, "state": str(state), "reason": reason}
    return {
        "apiVersion": "laneway.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": "team", "creationTimestamp": CREATED},
        "spec": {"workers": workers, "gpus": gpus or {"type": "Share", "sharePercent": 50}},
        "status": status,
    }


def a_condition(
    type_: str, reason: str = "Because", message: str = "So it is.", status: str = "True"
) -> dict[str, str]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": CREATED,
    }


def a_reason(**fields: Any) -> dict[str, Any]:
    """Why a job waits."""
    return {
        "reason": "GPUsBusy",
        "message": "It needs 4 GPUs.",
        "unblock": "It starts when 3 more GPUs have room.",
        "position": 2,
        "since": CREATED,
    } | fields


def an_ended_attempt(
    number: int = 1, *, outcome: str = "Preempted", lost: int | None = 30_000
) -> dict[str, Any]:
    """An attempt of two workers that is over after a minute."""
    return {
        "attempt": number,
        "startedAt": CREATED,
        "endedAt": "2026-01-31T12:01:00Z",
        "workers": 2,
        "nodes": ["n1", "n2"],
        "outcome": outcome,
        "reason": "HigherQueue",
        "message": "Preempted by team/new (queue 0 before queue 1).",
        "attainedServiceGPUMilliseconds": 100_000,
        **({} if lost is None else {"lostServiceGPUMilliseconds": lost}),
    }


PLACED = [{"worker": 0, "node": "n1", "gpus": ["GPU-1"], "sharePercent": 50}]
