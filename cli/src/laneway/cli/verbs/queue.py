"""``queue``: the TrainingJobs that wait, in the order in which the scheduler considers them."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence

from laneway.api import rfc3339
from laneway.api.durations import duration
from laneway.cli import job_format
from laneway.cli.exit_codes import OK
from laneway.cli.job_format import Object
from laneway.cli.job_table import FORMATS, WIDE, listing_of_jobs, show_selected, wide_cells
from laneway.cli.output import table
from laneway.cli.verbs.options import (
    add_output_option,
    add_selection_options,
    add_watch_option,
    open_client,
)
from laneway.sdk import TrainingJob
from laneway.sdk.job_object import status, waiting

HELP = "List the TrainingJobs that wait, the next one first"
_HEADER = ("POSITION", "NAME", "QUEUE", "SERVICE", "GPUS", "WAITING", "START", "REASON", "TO RUN")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.epilog = (
        "POSITION counts the jobs of all namespaces. -o json and -o yaml print TrainingJobs in this order: status.waiting "
        "says why each waits. -w prints nothing about a job that no longer waits."
    )
    add_watch_option(parser, "list them, then each that changes or begins to wait")
    add_output_option(parser, *FORMATS)
    add_selection_options(parser)


def run(arguments: Namespace) -> int:
    """List them."""
    everywhere = arguments.all_namespaces
    listing = listing_of_jobs(
        lambda jobs, wide: queue_table(jobs, time.time(), namespaces=everywhere, wide=wide), queued
    )
    show_selected(open_client(arguments), arguments, listing, empty="No TrainingJob waits")
    return OK


def queued(jobs: Iterable[TrainingJob]) -> list[TrainingJob]:
    """Return the jobs that wait; those without a position, which the scheduler does not consider, last."""
    found = [(wait, job) for job in jobs if (wait := waiting(job.object))]
    found.sort(key=lambda each: (each[0].get("position") or float("inf"), each[1].name))
    return [job for _, job in found]


def queue_table(
    jobs: Sequence[TrainingJob], now_seconds: float, *, namespaces: bool, wide: bool = False
) -> str:
    """Return a line for each waiting job."""
    header = (*(["NAMESPACE"] if namespaces else []), *_HEADER, *(WIDE if wide else ()))
    rows = []
    for job in jobs:
        row = [job.namespace] if namespaces else []
        rows.append([*row, *_cells(job.object, now_seconds), *(wide_cells(job.object) if wide else ())])
    return table(header, rows)


def _cells(job: Object, now_seconds: float) -> list[str]:
    wait = waiting(job) or {}
    return [
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


def _ago(time_text: str | None, now_seconds: float) -> str:
    return duration(now_seconds - rfc3339.parse_time(time_text)) if time_text else "-"


def _in(time_text: str | None, now_seconds: float) -> str:
    """Return when a job starts, as far as it is estimated."""
    return f"in {duration(rfc3339.parse_time(time_text) - now_seconds)}" if time_text else "-"
