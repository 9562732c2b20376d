"""``wait``: until a TrainingJob has ended, or a condition holds."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from laneway.api.training_job import ConditionType
from laneway.cli import job_text
from laneway.cli.durations import parse_duration
from laneway.cli.exit_codes import FAILED, NOT_FOUND, OK, TIMED_OUT, USAGE, CommandError
from laneway.cli.verbs.session import add_cluster_options, open_cluster

HELP = "wait until a TrainingJob has ended; exit code 0 if it succeeded, 1 if it failed, 4 after --timeout"
ENDED = "ended"


def add(parser: ArgumentParser) -> None:
    """Describe the verb."""
    parser.add_argument("name")
    parser.add_argument(
        "--for",
        dest="condition",
        default=ENDED,
        choices=[ENDED, *(item.value for item in ConditionType), "deleted"],
        help="what to wait for: its end (the default), a condition, or that it is gone",
    )
    parser.add_argument("--timeout", help="give up after so long, such as 90s or 10m; never by default")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """Watch the job until it is as wanted."""
    deadline_seconds = None
    if arguments.timeout is not None:
        try:
            deadline_seconds = time.monotonic() + parse_duration(arguments.timeout)
        except ValueError as error:
            raise CommandError(f"--timeout: {error}", USAGE) from error
    cluster, namespace = open_cluster(arguments)
    last: Mapping[str, Any] | None = None
    for job in cluster.changes(namespace, arguments.name, deadline_seconds):
        code = judged(job, last, arguments.name, arguments.condition)
        if code is not None:
            return code
        last = job
        if deadline_seconds is not None and time.monotonic() >= deadline_seconds:
            break
    said = " ".join(job_text.explained(last, time.time())) if last else ""
    raise CommandError(f"gave up after {arguments.timeout}: {said}", TIMED_OUT)


def judged(
    job: Mapping[str, Any] | None, before: Mapping[str, Any] | None, name: str, wanted: str
) -> int | None:
    """Return the exit code once the wait is over, and say why; None while it goes on.

    Raises:
        CommandError: the job is gone, and that was not what was waited for.
    """
    if job is None:
        if wanted == "deleted":
            print(f"{name} is gone.")
            return OK
        there_was = "was deleted while it was waited for" if before is not None else "is not there"
        raise CommandError(f"TrainingJob {name} {there_was}", NOT_FOUND)
    if wanted == "deleted" or not (job_text.finished(job) or job_text.condition_holds(job, wanted)):
        return None
    print("\n".join(job_text.explained(job, time.time())))
    if wanted == ENDED:
        return FAILED if job_text.condition_holds(job, "Failed") else OK
    return OK if job_text.condition_holds(job, wanted) else FAILED
