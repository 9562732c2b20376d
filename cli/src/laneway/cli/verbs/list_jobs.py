"""``list``: the TrainingJobs, one per line."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from typing import Any

from laneway.cli import job_format, progress_format
from laneway.cli.exit_codes import OK
from laneway.cli.output import table, write_object
from laneway.cli.verbs.options import add_cluster_options, add_output_option, open_cluster

HELP = "List TrainingJobs"
HEADER = ("NAME", "STATE", "REASON", "PROGRESS", "GPUS", "QUEUE", "POSITION", "SERVICE", "AGE")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="list the TrainingJobs of all namespaces"
    )
    add_output_option(parser)
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """List them: unfinished ones first, the oldest first."""
    cluster, namespace = open_cluster(arguments)
    jobs = cluster.list_jobs(None if arguments.all_namespaces else namespace)
    jobs.sort(
        key=lambda job: (
            job_format.finished(job),
            job["metadata"]["creationTimestamp"],
            job["metadata"]["name"],
        )
    )
    if arguments.output:
        write_object({"apiVersion": "v1", "kind": "List", "items": jobs}, arguments.output)
    elif not jobs:
        print("No TrainingJobs found" + ("." if arguments.all_namespaces else f" in namespace {namespace}."))
    else:
        print(job_table(jobs, time.time(), with_namespace=arguments.all_namespaces))
    return OK


def job_table(jobs: list[dict[str, Any]], now_seconds: float, *, with_namespace: bool) -> str:
    """Return the jobs as a table."""
    header = ("NAMESPACE", *HEADER) if with_namespace else HEADER
    rows = []
    for job in jobs:
        status = job_format.status(job)
        row = [
            job["metadata"]["name"],
            job_format.state(job),
            status.get("reason") or "-",
            progress_format.percent(job),
            job_format.requested(job),
            str(status.get("queue", 0)),
            str((job_format.waiting(job) or {}).get("position") or "-"),
            job_format.attained_service(job, now_seconds),
            job_format.age(job, now_seconds),
        ]
        rows.append([job["metadata"]["namespace"], *row] if with_namespace else row)
    return table(header, rows)
