"""The conditions of a TrainingJob, and their summary for people: one state and one reason.

``kubectl get tj`` and the command line show the summary. Programs read the conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from laneway.api.conditions import Condition


class ConditionType(StrEnum):
    """The conditions of a TrainingJob."""

    ACCEPTED = "Accepted"
    """The spec is valid, and the job may be scheduled."""
    PLACED = "Placed"
    """Its workers have GPUs."""
    RUNNING = "Running"
    """All workers run, and none of them is kept from the GPU."""
    PREEMPTED = "Preempted"
    """It yields its GPUs to another job, or has."""
    SUSPENDED = "Suspended"
    """Its user suspended it."""
    RESCALE_PENDING = "RescalePending"
    """It is to have another number of workers, and cannot yet. Only elastic jobs have this condition."""
    COMPLETE = "Complete"
    """All workers exited with code 0."""
    FAILED = "Failed"
    """A worker failed more often than backoffLimit allows, or the deadline passed."""


class SummaryState(StrEnum):
    """The state that ``kubectl get tj`` shows."""

    INVALID = "Invalid"
    """The spec was refused; the job runs once it is corrected."""
    PENDING = "Pending"
    """It waits for GPUs."""
    SUSPENDED = "Suspended"
    STARTING = "Starting"
    """It has GPUs; not all workers run yet."""
    RUNNING = "Running"
    WAITING = "Waiting"
    """All workers run, and at least one of them has no lane on its GPU yet."""
    PAUSED = "Paused"
    """Preempted, or paused by somebody's order: its workers keep their pods and take no turns."""
    COMPLETE = "Complete"
    FAILED = "Failed"


ALL_WORKERS_RUN = "AllWorkersRun"
"""Reason of Running=True from the start of an attempt on."""

WAITING_FOR_LANE = "WaitingForLane"
"""Reason of Running=False: a worker has no lane on its GPU."""

PAUSED_BY_ORDER = "PausedByOrder"
"""Reason of Running=False: somebody else than the operator ordered a worker to pause or to offload."""

PAUSED = "Paused"
OFFLOADED = "Offloaded"
"""Reasons of Running=False: the job was preempted without being evicted."""

ELASTIC_POLICY_DECIDES = "ElasticPolicyDecides"
"""Reason of RescalePending=False: an elastic policy chooses the number of workers, and ``spec.workers`` is not used."""

_DECISIVE = {
    ConditionType.FAILED: SummaryState.FAILED,
    ConditionType.COMPLETE: SummaryState.COMPLETE,
    ConditionType.RUNNING: SummaryState.RUNNING,
}
"""The first of these conditions that holds is the state."""

_NOT_RUNNING = {
    WAITING_FOR_LANE: SummaryState.WAITING,
    PAUSED_BY_ORDER: SummaryState.PAUSED,
    PAUSED: SummaryState.PAUSED,
    OFFLOADED: SummaryState.PAUSED,
}
"""The state of a job with GPUs, by the reason of Running=False; any other reason: it starts."""


def summarize(conditions: Sequence[Condition], waiting_reason: str) -> tuple[SummaryState, str]:
    """Return the state and the reason of a job.

    Args:
        conditions: the conditions of its status; none before the operator's first visit.
        waiting_reason: ``status.waiting.reason``; empty where it does not wait.

    Returns:
        The state, and why it is in it; the reason is empty where the state says all.
    """
    state, reason = _summarize({each.type: each for each in conditions}, waiting_reason)
    return state, "" if reason == state else reason


def _summarize(conditions: Mapping[str, Condition], waiting_reason: str) -> tuple[SummaryState, str]:
    true = {type_ for type_, condition in conditions.items() if condition.status == "True"}
    for kind, state in _DECISIVE.items():
        if kind in true:
            return state, conditions[kind].reason if kind is ConditionType.FAILED else ""
    if ConditionType.PLACED in true:
        running = conditions.get(ConditionType.RUNNING)
        state = _NOT_RUNNING.get(running.reason if running else "", SummaryState.STARTING)
        return state, waiting_reason
    accepted = conditions.get(ConditionType.ACCEPTED)
    if accepted is not None and accepted.status == "False":
        return SummaryState.INVALID, accepted.reason
    return SummaryState.SUSPENDED if ConditionType.SUSPENDED in true else SummaryState.PENDING, waiting_reason
