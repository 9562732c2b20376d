"""The table of TrainingJobs, and how they are listed."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from laneway.cli import job_format, progress_format
from laneway.cli.job_format import Object
from laneway.cli.listing import Change, Listing, changed_objects
from laneway.cli.output import table
from laneway.sdk import TrainingJob, TrainingJobClient, job_object
from laneway.sdk.job_object import state, status, waiting

FORMATS = ("wide", "name")
"""Beside JSON and YAML."""

_HEADER = ("NAME", "STATE", "REASON", "PROGRESS", "GPUS", "QUEUE", "POSITION", "SERVICE", "AGE")
WIDE = ("NODES", "ATTEMPTS", "PREEMPTIONS", "RESTARTS")


def in_order(jobs: Iterable[TrainingJob]) -> list[TrainingJob]:
    """Return the jobs in the order of the table: unfinished ones first, the oldest first."""
    return sorted(jobs, key=lambda job: (job.finished, job.creation_timestamp, job.namespace, job.name))


def name_of(job: TrainingJob) -> str:
    """Return what ``-o name`` writes."""
    return f"trainingjob.laneway.dev/{job_object.name(job.object)}"


def job_listing(*, namespaces: bool) -> Listing[TrainingJob]:
    """Return how TrainingJobs are listed, with their namespaces if there may be several."""

    def lines(jobs: Sequence[TrainingJob], wide: bool) -> str:
        return job_table([job.object for job in jobs], time.time(), namespaces=namespaces, wide=wide)

    return replace(listing_of_jobs(lines, in_order), gone=_deleted)


def listing_of_jobs(
    lines: Callable[[Sequence[TrainingJob], bool], str],
    arrange: Callable[[Iterable[TrainingJob]], list[TrainingJob]],
) -> Listing[TrainingJob]:
    """Return how TrainingJobs are listed by a table and an order of one's own."""
    return Listing(
        table=lines,
        document=lambda job: job.object,
        arrange=arrange,
        name=name_of,
    )


def _deleted(job: TrainingJob) -> TrainingJob:
    """Return a job that was deleted, or that its labels no longer select, as the table shows it."""
    gone = {"state": "Deleted", "reason": None, "waiting": None}
    return TrainingJob({**job.object, "status": {**status(job.object), **gone}})


def show_selected(
    client: TrainingJobClient, arguments: Namespace, listing: Listing[TrainingJob], *, empty: str
) -> None:
    """Write the TrainingJobs that a verb's options select, once or after each change.

    Args:
        client: of the cluster.
        arguments: of a verb with an output, a watch and a selection option.
        listing: how the verb shows them.
        empty: the start of the sentence that says that there are none.
    """
    selection = {"label_selector": arguments.selector, "all_namespaces": arguments.all_namespaces}
    if arguments.watch:
        listing.show_changes(changed_jobs(client.watch_jobs(**selection)), arguments.output)
    else:
        where = "" if arguments.all_namespaces else f" in namespace {client.namespace}"
        listing.show(client.list_jobs(**selection), arguments.output, empty=f"{empty}{where}.")


def changed_jobs(snapshots: Iterable[Sequence[TrainingJob]]) -> Iterator[Change[TrainingJob]]:
    """Yield all jobs, then those that are new, have changed or are gone."""
    return changed_objects(snapshots, lambda job: job.object["metadata"])


def job_table(jobs: Sequence[Object], now_seconds: float, *, namespaces: bool, wide: bool = False) -> str:
    """Return the jobs as a table."""
    header = (*(["NAMESPACE"] if namespaces else []), *_HEADER, *(WIDE if wide else ()))
    rows = []
    for job in jobs:
        row = [job["metadata"]["namespace"]] if namespaces else []
        row += _cells(job, now_seconds)
        rows.append([*row, *(wide_cells(job) if wide else ())])
    return table(header, rows)


def _cells(job: Object, now_seconds: float) -> list[str]:
    known = status(job)
    return [
        job["metadata"]["name"],
        state(job),
        known.get("reason") or "-",
        progress_format.percent(job),
        job_format.requested(job),
        str(known.get("queue", 0)),
        str((waiting(job) or {}).get("position") or "-"),
        job_format.attained_service(job, now_seconds),
        job_format.age(job, now_seconds),
    ]


def wide_cells(job: Object) -> list[str]:
    """Return what ``-o wide`` adds, under the header ``WIDE``."""
    known = status(job)
    nodes = sorted({each["node"] for each in known.get("placement") or ()})
    counts = [str(known.get(field, 0)) for field in ("attempt", "preemptions", "restarts")]
    return [",".join(nodes) or "-", *counts]
