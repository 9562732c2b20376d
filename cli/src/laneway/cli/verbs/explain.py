"""``explain``: why a TrainingJob does not run or waits for data, and what would change that."""

from __future__ import annotations

import time
from argparse import Namespace
from functools import partial

from laneway.cli import job_format
from laneway.cli.exit_codes import OK
from laneway.cli.output import write_object
from laneway.cli.verbs.options import add_job_arguments, read_job

HELP = "Explain why a TrainingJob does not run, or waits for data, and what would change that"

add_arguments = partial(add_job_arguments, output=True)


def run(arguments: Namespace) -> int:
    """Explain it."""
    job = read_job(arguments)
    if arguments.output:
        explanation = {
            "name": arguments.name,
            "managedBy": job_format.other_controller(job) or None,
            "state": job_format.state(job),
            "reason": job_format.status(job).get("reason") or None,
            "waiting": job_format.waiting(job),
            "dataWait": list(job_format.data_wait_lines(job)),
        }
        write_object(explanation, arguments.output)
    else:
        print("\n".join(job_format.explanation(job, time.time())))
    return OK
