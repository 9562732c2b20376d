"""``logs``: the logs of a job's workers, through preemptions and restarts if they are followed."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace

from laneway.cli import job_format
from laneway.cli.exit_codes import FAILED, NOT_FOUND, OK, CommandError
from laneway.cli.output import printable
from laneway.cli.verbs.options import add_job_arguments, open_client
from laneway.sdk import NotFoundError, TrainingJobClient
from laneway.sdk.cluster import Object
from laneway.sdk.logs import worker_logs

HELP = "Print the logs of a worker, or of all"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "-f", "--follow", action="store_true", help="stream the logs of all attempts until the job has ended"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-w",
        "--worker",
        type=int,
        default=0,
        help="rank of the worker (default: %(default)s); -w is not --watch here",
    )
    which.add_argument(
        "--all-workers", action="store_true", help="print all workers' lines, each after its pod's name"
    )
    parser.add_argument("-c", "--container", help="name of the container (default: trainer, else the first)")
    add_job_arguments(parser)


def run(arguments: Namespace) -> int:
    """Write the logs to standard output."""
    client = open_client(arguments)
    try:
        if arguments.all_workers:
            _write_lines(client, arguments)
        else:
            _write_pieces(client, arguments)
    except NotFoundError as error:
        explanation = job_format.explanation(client.get_job(arguments.name).object, time.time())
        raise CommandError(f"no logs yet: {' '.join(explanation)}", NOT_FOUND) from error
    if arguments.follow and client.get_job(arguments.name).status == "Failed":
        return FAILED
    return OK


def _write_lines(client: TrainingJobClient, arguments: Namespace) -> None:
    for line in client.get_job_logs(
        arguments.name, worker=None, container=arguments.container, follow=arguments.follow
    ):
        print(line, flush=arguments.follow)


def _write_pieces(client: TrainingJobClient, arguments: Namespace) -> None:
    """Write a log as it arrives, so that a progress bar moves."""
    logs = worker_logs(
        client.cluster,
        client.namespace,
        arguments.name,
        worker=arguments.worker,
        container=arguments.container,
        follow=arguments.follow,
    )
    (log,) = logs.values()
    for piece in log.pieces(_Notice().show):
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


class _Notice:
    """Tells once why there is nothing to read."""

    def __init__(self) -> None:
        self._shown = ""

    def show(self, job: Object) -> None:
        explanation = job_format.explanation(job, time.time())[0]
        if explanation != self._shown:
            self._shown = explanation
            print(printable(f"# {explanation}"), file=sys.stderr, flush=True)
