"""``explain``: why a TrainingJob does not run or waits for data, and what would change that."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace

from laneway.cli import job_format
from laneway.cli.exit_codes import OK
from laneway.cli.output import printable, write_object
from laneway.cli.verbs.options import add_job_arguments, add_output_option, open_client
from laneway.sdk import job_object

HELP = "Explain why a TrainingJob does not run, or waits for data, and what would change that"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_output_option(parser)
    add_job_arguments(parser)


def run(arguments: Namespace) -> int:
    """Explain it."""
    job = open_client(arguments).get_job(arguments.name).object
    if arguments.output:
        explanation = {
            "name": arguments.name,
            "managedBy": job_format.other_controller(job) or None,
            "state": job_object.state(job),
            "reason": job_object.status(job).get("reason") or None,
            "waiting": job_object.waiting(job),
            "dataWait": list(job_format.data_wait_lines(job)),
        }
        write_object(explanation, arguments.output)
    else:
        print(printable("\n".join(job_format.explanation(job, time.time()))))
    return OK
