"""Events: what happened to a job and why, as ``kubectl describe`` shows it."""

from __future__ import annotations

from typing import Any

from laneway.api.clock_text import to_text
from laneway.api.names import GROUP
from laneway.operator.records.job_record import JobRecord
from laneway.operator.resources import EVENTS, TRAINING_JOBS
from laneway.operator.standing import Happening

CYCLE_ANNOTATION = f"{GROUP}/cycle"

_LONGEST_NOTE_BYTES = 1024
"""The API server's limit."""


def event_of(
    job: JobRecord, happening: Happening, cycle: str, number: int, reporter: str, now_seconds: float
) -> dict[str, Any]:
    """Return the event of something that happened to a job in a cycle; ``number`` tells the events of a cycle apart."""
    note = happening.message
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "name": f"{job.name}.{cycle}.{number}",
            "namespace": job.namespace,
            "annotations": {CYCLE_ANNOTATION: cycle},
        },
        "eventTime": to_text(now_seconds),
        "type": "Warning" if happening.warning else "Normal",
        "reason": happening.reason,
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
