"""``wait``: waits until a TrainingJob has ended, or a condition holds."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from laneway.api.job_conditions import ConditionType
from laneway.cli import job_format
from laneway.cli.durations import parse_duration
from laneway.cli.exit_codes import FAILED, NOT_FOUND, OK, TIMED_OUT, USAGE, CommandError
from laneway.cli.output import printable
from laneway.cli.verbs.options import add_job_arguments, open_client
from laneway.sdk.job_object import condition_holds, finished

HELP = "Wait until a TrainingJob has ended or a condition holds"
ENDED, DELETED = "ended", "deleted"
PASSED_BY_COMPLETION = (ConditionType.ACCEPTED, ConditionType.PLACED, ConditionType.RUNNING)
"""A job that completed has met these conditions, even where it was too fast to be seen."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.epilog = (
        "Exit codes: 0 if the job completed or the condition holds; 1 if it failed; 4 after --timeout."
    )
    parser.add_argument(
        "--for",
        dest="condition",
        default=ENDED,
        choices=[ENDED, *(item.value for item in ConditionType), DELETED],
        metavar="CONDITION",
        help=f"{ENDED}, {DELETED}, or a condition: {', '.join(ConditionType)} (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout", help="how long to wait before giving up, such as 90s or 10m (default: no limit)"
    )
    add_job_arguments(parser)


def run(arguments: Namespace) -> int:
    """Watch the job until the wait is over."""
    timeout_seconds = None
    if arguments.timeout is not None:
        try:
            timeout_seconds = parse_duration(arguments.timeout)
        except ValueError as error:
            raise CommandError(f"--timeout: {error}", USAGE) from error
    last: Mapping[str, Any] | None = None
    for seen in open_client(arguments).watch_job(arguments.name, timeout=timeout_seconds):
        job = seen.object if seen else None
        code = exit_code(job, last, arguments.name, arguments.condition)
        if code is not None:
            return code
        last = job
    explanation = " ".join(job_format.explanation(last, time.time())) if last else ""
    raise CommandError(f"timed out after {arguments.timeout}: {explanation}", TIMED_OUT)


def exit_code(
    job: Mapping[str, Any] | None, before: Mapping[str, Any] | None, name: str, condition: str
) -> int | None:
    """Return the exit code once the wait is over, and print why; None while it continues.

    Raises:
        CommandError: the job was deleted, but the wait is for something else.
    """
    if job is None:
        if condition == DELETED:
            print(f"TrainingJob {name} deleted.")
            return OK
        raise CommandError(
            f"TrainingJob {name} {'not found' if before is None else 'was deleted during the wait'}",
            NOT_FOUND,
        )
    if condition == DELETED or not (finished(job) or condition_holds(job, condition)):
        return None
    print(printable("\n".join(job_format.explanation(job, time.time()))))
    if condition == ENDED:
        return FAILED if condition_holds(job, ConditionType.FAILED) else OK
    passed = condition in PASSED_BY_COMPLETION and condition_holds(job, ConditionType.COMPLETE)
    return OK if passed or condition_holds(job, condition) else FAILED
