"""TrainingJobs as a table, as names, or as objects; once, or after each change."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence

from laneway.cli import job_format, progress_format
from laneway.cli.job_format import Object
from laneway.cli.output import table, write_document, write_object
from laneway.sdk import TrainingJob
from laneway.sdk.job_object import state, status, waiting

FORMATS = ("wide", "name")
"""Beside JSON and YAML."""

_HEADER = ("NAME", "STATE", "REASON", "PROGRESS", "GPUS", "QUEUE", "POSITION", "SERVICE", "AGE")
_WIDE = ("NODES", "ATTEMPTS", "PREEMPTIONS", "RESTARTS")


def in_order(jobs: Iterable[TrainingJob]) -> list[TrainingJob]:
    """Return the jobs in the order of the table: unfinished ones first, the oldest first."""
    return sorted(jobs, key=lambda job: (job.finished, job.creation_timestamp, job.namespace, job.name))


def name_of(job: TrainingJob) -> str:
    """Return what ``-o name`` writes."""
    return f"trainingjob.laneway.dev/{job.name}"


def show_jobs(jobs: Sequence[TrainingJob], output: str | None, *, namespaces: bool) -> None:
    """Write the jobs, with their namespaces if there may be several."""
    if output in ("json", "yaml"):
        items = [dict(job.object) for job in jobs]
        write_object({"apiVersion": "v1", "kind": "List", "items": items}, output)
    elif output == "name":
        for job in jobs:
            print(name_of(job))
    else:
        print(
            job_table([job.object for job in jobs], time.time(), namespaces=namespaces, wide=output == "wide")
        )


def show_changes(snapshots: Iterable[Sequence[TrainingJob]], output: str | None, *, namespaces: bool) -> None:
    """Write all jobs, then each that has changed, until the snapshots end; a table has its header once."""
    written: dict[str, str] = {}
    for number, jobs in enumerate(snapshots):
        changed = in_order(job for job in jobs if written.get(job.object["metadata"]["uid"]) != _version(job))
        written = {job.object["metadata"]["uid"]: _version(job) for job in jobs}
        if output in ("json", "yaml"):
            for job in changed:
                write_document(dict(job.object), output)
        elif output == "name":
            show_jobs(changed, output, namespaces=namespaces)
        elif changed or not number:
            objects = [job.object for job in changed]
            lines = job_table(objects, time.time(), namespaces=namespaces, wide=output == "wide").splitlines()
            print("\n".join(lines[min(number, 1) :]))
        sys.stdout.flush()


def job_table(jobs: Sequence[Object], now_seconds: float, *, namespaces: bool, wide: bool = False) -> str:
    """Return the jobs as a table."""
    header = (*(["NAMESPACE"] if namespaces else []), *_HEADER, *(_WIDE if wide else ()))
    rows = []
    for job in jobs:
        row = [job["metadata"]["namespace"]] if namespaces else []
        row += _cells(job, now_seconds)
        rows.append([*row, *(_wide_cells(job) if wide else ())])
    return table(header, rows)


def _version(job: TrainingJob) -> str:
    return str(job.object["metadata"]["resourceVersion"])


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


def _wide_cells(job: Object) -> list[str]:
    known = status(job)
    nodes = sorted({each["node"] for each in known.get("placement") or ()})
    counts = [str(known.get(field, 0)) for field in ("attempt", "preemptions", "restarts")]
    return [",".join(nodes) or "-", *counts]
