"""``get``: one TrainingJob in detail."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from laneway.api.quantity import format_bytes
from laneway.cli import job_format, progress_format
from laneway.cli.exit_codes import OK
from laneway.cli.job_table import FORMATS, changed_jobs, job_listing
from laneway.cli.output import printable, table, write_object
from laneway.cli.verbs.options import add_job_arguments, add_output_option, add_watch_option, open_client
from laneway.sdk import NotFoundError, TrainingJob
from laneway.sdk.job_object import conditions, status, waiting

HELP = "Show a TrainingJob in detail"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_watch_option(parser, "show it as a line, and again after each change")
    add_output_option(parser, *FORMATS)
    add_job_arguments(parser)


def run(arguments: Namespace) -> int:
    """Show it."""
    client = open_client(arguments)
    if arguments.watch:
        changes = changed_jobs(_until_deleted(client.watch_job(arguments.name)))
        job_listing(namespaces=False).show_changes(changes, arguments.output)
        raise NotFoundError(f"TrainingJob {arguments.name} not found, or deleted")
    job = client.get_job(arguments.name)
    if arguments.output in FORMATS:
        job_listing(namespaces=False).show([job], arguments.output)
    elif arguments.output:
        write_object(dict(job.object), arguments.output)
    else:
        print(printable("\n".join(description(job.object, time.time()))))
    return OK


def _until_deleted(states: Iterator[TrainingJob | None]) -> Iterator[list[TrainingJob]]:
    yield from ([job] for job in states if job)


def description(job: Mapping[str, Any], now_seconds: float) -> Iterator[str]:
    """Yield a job's description, line by line."""
    known = status(job)
    metadata = job["metadata"]
    yield f"Name:         {metadata['namespace']}/{metadata['name']}"
    yield f"State:        {job_format.state_and_reason(job)}"
    yield f"Requests:     {job_format.requested(job)}"
    if scaling := job_format.scaling(job):
        yield f"Workers:      {scaling}"
    yield f"Age:          {job_format.age(job, now_seconds)}"
    yield f"Service:      {job_format.attained_service(job, now_seconds)}, queue {known.get('queue', 0)}"
    yield (
        f"Attempts:     {known.get('attempt', 0)} (preemptions {known.get('preemptions', 0)}, "
        f"restarts after failures {known.get('restarts', 0)})"
    )
    if preemption := job_format.last_preemption(job, now_seconds):
        yield f"Preempted:    {preemption}"
    if rescale := job_format.last_rescale(job, now_seconds):
        yield f"Rescaled:     {rescale}"
    if pending := job_format.pending_rescale(job):
        yield f"Rescale:      {pending}"
    if progress := progress_format.progress(job, now_seconds):
        yield f"Progress:     {progress}"
    if warning := (known.get("progress") or {}).get("warning"):
        yield f"Warning:      {warning}"
    yield from _measured(known)
    if waiting(job):
        yield "Waiting:"
        yield from (f"  {line}" for line in job_format.explanation(job, now_seconds))
    if placement := job_format.placement(job):
        yield "Placement:"
        yield from (f"  {line}" for line in placement)
    if rows := job_format.ended_attempts(job, now_seconds):
        yield "Ended attempts:"
        header = ("ATTEMPT", "ENDED", "LASTED", "WORKERS", "GPU-S", "LOST", "OUTCOME", "REASON", "MESSAGE")
        yield from (f"  {line}" for line in table(header, rows).splitlines())
    if found := conditions(job):
        yield "Conditions:"
        rows = [[item["type"], item["status"], item["reason"], item["message"]] for item in found]
        yield from (f"  {line}" for line in table(("TYPE", "STATUS", "REASON", "MESSAGE"), rows).splitlines())


def _measured(known: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was measured of a job."""
    profile = known.get("profile")
    if profile:
        yield (
            f"Profile:      persistent {format_bytes(profile['persistentBytes'])}, "
            f"ephemeral {format_bytes(profile['ephemeralBytes'])}, "
            f"iteration {profile.get('iterationMicroseconds', 0) / 1000:.1f} ms "
            f"(spread {profile.get('iterationSpreadMicroseconds', 0) / 1000:.1f} ms){progress_format.data_time(profile)}"
        )
        if points := progress_format.pace_by_cpus(profile):
            yield f"By CPUs:      {points}"
    if cpus := known.get("cpus"):
        message = f". {cpus['message']}" if cpus.get("message") else ""
        yield f"CPUs:         {cpus['allocated']} for each worker, which requests {cpus['requested']}{message}"
    if goodput := progress_format.goodput(known.get("goodput") or {}, known.get("attemptBatch") or 0):
        yield f"Goodput:      {goodput}"
