"""How far a TrainingJob has come, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laneway.api import clock_text
from laneway.cli import job_text

Object = Mapping[str, Any]


def percent(job: Object) -> str:
    """Return how much of a job is done, by its own word; ``-`` where it has none."""
    done = _progress(job).get("percent")
    return "-" if done is None else f"{done}%"


def progress(job: Object, now_seconds: float) -> str:
    """Say how far a job is: ``step 250 of 1000 (25%), epoch 2, loss 0.5, about 7m30s left``; empty where nothing is known."""
    made = _progress(job)
    parts = [_steps(made)]
    if made.get("epoch") is not None:
        parts.append(f"epoch {made['epoch']}")
    if made.get("loss") is not None:
        parts.append(f"loss {made['loss']}")
    if made.get("remainingSeconds") is not None and not job_text.finished(job):
        parts.append(f"about {job_text.span(_left_seconds(job, made, now_seconds))} left")
    return ", ".join(part for part in parts if part)


def data_time(profile: Object) -> str:
    """Say how long a job's iterations wait for their data; empty where they do not."""
    microseconds = profile.get("dataMicroseconds") or 0
    return f", {microseconds / 1000:.1f} ms before each for data" if microseconds else ""


def _steps(made: Object) -> str:
    if made.get("step") is None:
        return f"{made['iterations']} iterations" if made.get("iterations") else ""
    if made.get("steps") is None:
        return f"step {made['step']}"
    done = "" if made.get("percent") is None else f" ({made['percent']}%)"
    return f"step {made['step']} of {made['steps']}{done}"


def _left_seconds(job: Object, made: Object, now_seconds: float) -> float:
    """Return what is left now: of a job that runs, less than when it said so."""
    left_seconds = float(made["remainingSeconds"])
    if made.get("updatedAt") and job_text.state(job) == "Running":
        left_seconds -= now_seconds - clock_text.to_seconds(made["updatedAt"])
    return max(0.0, left_seconds)


def _progress(job: Object) -> Object:
    return (job.get("status") or {}).get("progress") or {}
