"""Events: what happened to a job and why, as ``kubectl describe`` shows it."""

from __future__ import annotations

from typing import Any

from laneway.api.names import GROUP
from laneway.api.rfc3339 import format_time
from laneway.operator.lifecycle.reconciled_job import JobEvent
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.resources import EVENTS, TRAINING_JOBS

CYCLE_ANNOTATION = f"{GROUP}/cycle"

_LONGEST_NOTE_BYTES = 1024
"""The API server's limit."""


def event_of(
    job: JobRecord, event: JobEvent, cycle: str, number: int | str, reporter: str, now_seconds: float
) -> dict[str, Any]:
    """Return the event of something that happened to a job in a cycle; ``number`` tells the events of a cycle apart."""
    note = event.message
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "name": f"{job.name}.{cycle}.{number}",
            "namespace": job.namespace,
            "annotations": {CYCLE_ANNOTATION: cycle},
        },
        "eventTime": format_time(now_seconds),
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "action": "Scheduling",
        "note": note.encode()[:_LONGEST_NOTE_BYTES].decode(errors="ignore"),
        "reportingController": f"{GROUP}/operator",
        "reportingInstance": reporter,
        "regarding": {
            "apiVersion": TRAINING_JOBS.api_version,
            "kind": TRAINING_JOBS.kind,
            "name": job.name,
            "namespace": job.namespace,
            "uid": job.uid,
            "resourceVersion": job.resource_version,
        },
    }
