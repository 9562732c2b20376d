"""Formats the progress of a TrainingJob for people."""

from __future__ import annotations

from laneway.api import rfc3339
from laneway.api.durations import duration
from laneway.api.job_conditions import SummaryState
from laneway.cli.job_format import Object
from laneway.sdk.job_object import finished, state, status


def percent(job: Object) -> str:
    """Return the progress that the training script reports; ``-`` without a report."""
    done = _progress(job).get("percent")
    return "-" if done is None else f"{done}%"


def progress(job: Object, now_seconds: float) -> str:
    """Return the progress: ``step 250 of 1000 (25%), epoch 2, loss 0.5, about 7m30s left``; empty if unknown."""
    made = _progress(job)
    parts = [_steps(made)]
    if made.get("epoch") is not None:
        parts.append(f"epoch {made['epoch']}")
    if made.get("loss") is not None:
        parts.append(f"loss {made['loss']}")
    if made.get("remainingSeconds") is not None and not finished(job):
        parts.append(f"about {duration(_left_seconds(job, made, now_seconds))} left")
    return ", ".join(part for part in parts if part)


def data_time(profile: Object) -> str:
    """Return the time that each iteration waits for its data; empty if it does not."""
    microseconds = profile.get("dataMicroseconds") or 0
    return f", {microseconds / 1000:.1f} ms before each for data" if microseconds else ""


def pace_by_cpus(profile: Object) -> str:
    """Return how long an iteration takes with some numbers of CPUs: ``2: 500.0 ms, 8: 125.0 ms``; empty if not measured."""
    points = profile.get("cpuPoints") or ()
    return ", ".join(
        f"{each['cpuMillis'] / 1000:g}: {each['iterationMicroseconds'] / 1000:.1f} ms" for each in points
    )


def goodput(known: Object, chosen: int = 0) -> str:
    """Return the goodput: ``512.0 samples/s, batch 256, efficiency 87%, noise scale 4100``; empty if unknown.

    Args:
        known: the status.goodput of a job.
        chosen: the batch that the operator chose; 0: none.
    """
    batch = known.get("batch")
    if not batch:
        return ""
    samples = batch["ranks"] * batch["localBatch"] * batch.get("passes", 1)
    parts = [f"batch {samples}" + (f" ({chosen} chosen for this attempt)" if chosen else "")]
    if known.get("milliSamplesPerSecond") is not None:
        parts.insert(0, f"{known['milliSamplesPerSecond'] / 1000:.1f} samples/s")
    if known.get("efficiencyPercent") is not None:
        parts.append(f"efficiency {known['efficiencyPercent']}%")
    if batch.get("noiseScale") is not None:
        parts.append(f"noise scale {batch['noiseScale']}")
    return ", ".join(parts)


def _steps(made: Object) -> str:
    if made.get("step") is None:
        return f"{made['iterations']} iterations" if made.get("iterations") else ""
    if made.get("steps") is None:
        return f"step {made['step']}"
    done = "" if made.get("percent") is None else f" ({made['percent']}%)"
    return f"step {made['step']} of {made['steps']}{done}"


def _left_seconds(job: Object, made: Object, now_seconds: float) -> float:
    """Return the remaining time: for a running job, minus the time since the report."""
    left_seconds = float(made["remainingSeconds"])
    if made.get("updatedAt") and state(job) == SummaryState.RUNNING:
        left_seconds -= now_seconds - rfc3339.parse_time(made["updatedAt"])
    return max(0.0, left_seconds)


def _progress(job: Object) -> Object:
    return status(job).get("progress") or {}
