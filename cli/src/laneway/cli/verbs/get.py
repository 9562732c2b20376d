"""``get``: one TrainingJob in detail."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from laneway.api.quantity import format_bytes
from laneway.cli import job_format, progress_format
from laneway.cli.exit_codes import OK
from laneway.cli.output import table, write_object
from laneway.cli.verbs.options import add_job_arguments, read_job

HELP = "Show a TrainingJob in detail"

add_arguments = partial(add_job_arguments, output=True)


def run(arguments: Namespace) -> int:
    """Show it."""
    job = read_job(arguments)
    if arguments.output:
        write_object(job, arguments.output)
    else:
        print("\n".join(description(job, time.time())))
    return OK


def description(job: Mapping[str, Any], now_seconds: float) -> Iterator[str]:
    """Yield a job's description, line by line."""
    status = job_format.status(job)
    metadata = job["metadata"]
    yield f"Name:         {metadata['namespace']}/{metadata['name']}"
    yield f"State:        {job_format.state_and_reason(job)}"
    yield f"Requests:     {job_format.requested(job)}"
    if scaling := job_format.scaling(job):
        yield f"Workers:      {scaling}"
    yield f"Age:          {job_format.age(job, now_seconds)}"
    yield f"Service:      {job_format.attained_service(job, now_seconds)}, queue {status.get('queue', 0)}"
    yield (
        f"Attempts:     {status.get('attempt', 0)} (preemptions {status.get('preemptions', 0)}, "
        f"restarts after failures {status.get('restarts', 0)})"
    )
    if preemption := job_format.last_preemption(job, now_seconds):
        yield f"Preempted:    {preemption}"
    if rescale := job_format.last_rescale(job, now_seconds):
        yield f"Rescaled:     {rescale}"
    if pending := job_format.pending_rescale(job):
        yield f"Rescale:      {pending}"
    if progress := progress_format.progress(job, now_seconds):
        yield f"Progress:     {progress}"
    if warning := (status.get("progress") or {}).get("warning"):
        yield f"Warning:      {warning}"
    yield from _measured(status)
    if job_format.waiting(job):
        yield "Waiting:"
        yield from (f"  {line}" for line in job_format.explanation(job, now_seconds))
    if placement := job_format.placement(job):
        yield "Placement:"
        yield from (f"  {line}" for line in placement)
    if conditions := job_format.conditions(job):
        yield "Conditions:"
        rows = [[item["type"], item["status"], item["reason"], item["message"]] for item in conditions]
        yield from (f"  {line}" for line in table(("TYPE", "STATUS", "REASON", "MESSAGE"), rows).splitlines())


def _measured(status: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was measured of a job."""
    profile = status.get("profile")
    if profile:
        yield (
            f"Profile:      persistent {format_bytes(profile['persistentBytes'])}, "
            f"ephemeral {format_bytes(profile['ephemeralBytes'])}, "
            f"iteration {profile.get('iterationMicroseconds', 0) / 1000:.1f} ms "
            f"(spread {profile.get('iterationSpreadMicroseconds', 0) / 1000:.1f} ms){progress_format.data_time(profile)}"
        )
        if points := progress_format.pace_by_cpus(profile):
            yield f"By CPUs:      {points}"
    if cpus := status.get("cpus"):
        message = f". {cpus['message']}" if cpus.get("message") else ""
        yield f"CPUs:         {cpus['allocated']} for each worker, which requests {cpus['requested']}{message}"
    if goodput := progress_format.goodput(status.get("goodput") or {}, status.get("attemptBatch") or 0):
        yield f"Goodput:      {goodput}"
