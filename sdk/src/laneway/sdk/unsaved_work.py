"""What a job loses when it is stopped."""

from __future__ import annotations

from laneway.api import rfc3339
from laneway.api.durations import duration
from laneway.sdk.job_object import Object, status


def loss_at_a_stop(job: Object, now_seconds: float) -> str:
    """Return what a job loses if its workers end now and save nothing first; empty if it has saved, or if nothing is known of checkpoints."""
    made = status(job).get("progress") or {}
    if not status(job).get("placement") or not made.get("unsavedSince"):
        return ""
    if made.get("lastCheckpointTime") is None:
        seen = "no checkpoint of it was seen"
    elif made.get("resumes") is False:
        seen = "its last attempt did not go on from its checkpoint"
    else:
        return ""
    trained = duration(now_seconds - rfc3339.parse_time(made["unsavedSince"]))
    return (
        f"{seen}, so it may start from the beginning and lose {trained} of training, unless its script saves one when it "
        "gets SIGTERM and loads it at its start"
    )
