"""``get``: one TrainingJob in full."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from laneway.api.quantity import format_bytes
from laneway.cli import job_text, progress_text
from laneway.cli.exit_codes import OK
from laneway.cli.output import table, write_object
from laneway.cli.verbs.session import add_cluster_options, add_output_option, open_cluster

HELP = "show a TrainingJob"


def add(parser: ArgumentParser) -> None:
    """Describe the verb."""
    parser.add_argument("name")
    add_output_option(parser, "json", "yaml")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """Show it."""
    cluster, namespace = open_cluster(arguments)
    job = cluster.read(namespace, arguments.name)
    if arguments.output:
        write_object(job, arguments.output)
    else:
        print("\n".join(described(job, time.time())))
    return OK


def described(job: Mapping[str, Any], now_seconds: float) -> Iterator[str]:
    """Yield a job's description, line by line."""
    status = job.get("status") or {}
    metadata = job["metadata"]
    yield f"Name:         {metadata['namespace']}/{metadata['name']}"
    yield f"State:        {job_text.state(job)}"
    yield f"Asks for:     {job_text.asks_for(job)}"
    yield f"Age:          {job_text.age(job, now_seconds)}"
    yield f"Service:      {job_text.service(job)}, queue {status.get('queue', 0)}"
    yield (
        f"Attempts:     {status.get('attempt', 0)} (preemptions {status.get('preemptions', 0)}, "
        f"restarts after failures {status.get('restarts', 0)})"
    )
    if made_way := job_text.last_made_way(job, now_seconds):
        yield f"Made way:     {made_way}"
    if progress := progress_text.progress(job, now_seconds):
        yield f"Progress:     {progress}"
    profile = status.get("profile")
    if profile:
        yield (
            f"Profile:      persistent {format_bytes(profile['persistentBytes'])}, "
            f"ephemeral {format_bytes(profile['ephemeralBytes'])}, "
            f"iteration {profile.get('iterationMicroseconds', 0) / 1000:.1f} ms "
            f"(spread {profile.get('iterationSpreadMicroseconds', 0) / 1000:.1f} ms){progress_text.data_time(profile)}"
        )
    if job_text.waiting(job):
        yield "Waiting:"
        yield from (f"  {line}" for line in job_text.explained(job, now_seconds))
    if placed := job_text.where(job):
        yield "Placement:"
        yield from (f"  {line}" for line in placed)
    if found := job_text.conditions(job):
        yield "Conditions:"
        lines = [[item["type"], item["status"], item["reason"], item["message"]] for item in found]
        yield from (
            f"  {line}" for line in table(("TYPE", "STATUS", "REASON", "MESSAGE"), lines).splitlines()
        )
