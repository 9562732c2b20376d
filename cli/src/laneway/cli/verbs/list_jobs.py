"""``list``: the TrainingJobs, one a line."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from laneway.cli import job_text, progress_text
from laneway.cli.exit_codes import OK
from laneway.cli.output import table, write_object
from laneway.cli.verbs.session import add_cluster_options, add_output_option, open_cluster

HELP = "list TrainingJobs"
HEADER = ("NAME", "STATE", "DONE", "GPUS", "QUEUE", "SERVICE", "AGE", "WAITS FOR")


def add(parser: ArgumentParser) -> None:
    """Describe the verb."""
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="those of all namespaces")
    add_output_option(parser, "json", "yaml")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """List them: unfinished ones first, in the order in which they came."""
    cluster, namespace = open_cluster(arguments)
    jobs = cluster.list_jobs(None if arguments.all_namespaces else namespace)
    jobs.sort(
        key=lambda job: (
            job_text.finished(job),
            job["metadata"]["creationTimestamp"],
            job["metadata"]["name"],
        )
    )
    if arguments.output:
        write_object({"apiVersion": "v1", "kind": "List", "items": jobs}, arguments.output)
    elif not jobs:
        print(
            "There are no TrainingJobs" + ("." if arguments.all_namespaces else f" in namespace {namespace}.")
        )
    else:
        print(rows(jobs, time.time(), with_namespace=arguments.all_namespaces))
    return OK


def rows(jobs: list[dict[str, Any]], now_seconds: float, *, with_namespace: bool) -> str:
    """Return the jobs as a table."""
    header = ("NAMESPACE", *HEADER) if with_namespace else HEADER
    lines = []
    for job in jobs:
        line = [
            job["metadata"]["name"],
            job_text.state(job),
            progress_text.percent(job),
            job_text.asks_for(job),
            str((job.get("status") or {}).get("queue", 0)),
            job_text.service(job),
            job_text.age(job, now_seconds),
            _waits_for(job),
        ]
        lines.append([job["metadata"]["namespace"], *line] if with_namespace else line)
    return table(header, lines)


def _waits_for(job: Mapping[str, Any]) -> str:
    reason = job_text.waiting(job)
    if reason is None:
        return "-"
    place = f" (#{reason['position']})" if reason.get("position") else ""
    return f"{reason['reason']}{place}"
