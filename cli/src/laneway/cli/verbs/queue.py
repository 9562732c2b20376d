"""``queue``: the TrainingJobs that wait, in the order in which the scheduler considers them."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from laneway.api import rfc3339
from laneway.api.durations import duration
from laneway.cli import job_format
from laneway.cli.exit_codes import OK
from laneway.cli.output import table
from laneway.cli.verbs.options import add_selection_options, open_client
from laneway.sdk.job_object import status, waiting

HELP = "List the TrainingJobs that wait, the next one first"
_HEADER = ("POSITION", "NAME", "QUEUE", "SERVICE", "GPUS", "WAITING", "START", "REASON", "TO RUN")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.epilog = "POSITION counts the jobs of all namespaces."
    add_selection_options(parser)


def run(arguments: Namespace) -> int:
    """List them."""
    client, everywhere = open_client(arguments), arguments.all_namespaces
    jobs = [
        job.object for job in client.list_jobs(label_selector=arguments.selector, all_namespaces=everywhere)
    ]
    lines = queue_rows(jobs, time.time(), namespaces=everywhere)
    if lines:
        print(table(("NAMESPACE", *_HEADER) if everywhere else _HEADER, lines))
    else:
        print("No TrainingJob waits" + ("." if everywhere else f" in namespace {client.namespace}."))
    return OK


def queue_rows(jobs: Sequence[Mapping[str, Any]], now_seconds: float, *, namespaces: bool) -> list[list[str]]:
    """Return a row for each job that waits; those without a position, which the scheduler does not consider, last."""
    found = [(wait, job) for job in jobs if (wait := waiting(job))]
    found.sort(key=lambda each: (each[0].get("position") or float("inf"), each[1]["metadata"]["name"]))
    return [
        [
            *([job["metadata"]["namespace"]] if namespaces else []),
            str(wait.get("position") or "-"),
            job["metadata"]["name"],
            str(status(job).get("queue", 0)),
            job_format.attained_service(job, now_seconds),
            job_format.requested(job),
            _ago(wait.get("since"), now_seconds),
            _in(wait.get("estimatedStart"), now_seconds),
            wait["reason"],
            wait.get("unblock") or "-",
        ]
        for wait, job in found
    ]


def _ago(time_text: str | None, now_seconds: float) -> str:
    return duration(now_seconds - rfc3339.parse_time(time_text)) if time_text else "-"


def _in(time_text: str | None, now_seconds: float) -> str:
    """Return when a job starts, as far as it is estimated."""
    return f"in {duration(rfc3339.parse_time(time_text) - now_seconds)}" if time_text else "-"
