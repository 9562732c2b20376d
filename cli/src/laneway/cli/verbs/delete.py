"""``delete``: deletes TrainingJobs; their workers get their grace period for a checkpoint."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from laneway.cli.verbs.options import add_job_arguments, for_each_job
from laneway.sdk import NotFoundError, TrainingJobClient

HELP = "Delete TrainingJobs"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "--ignore-not-found", action="store_true", help="treat a missing TrainingJob as deleted"
    )
    parser.add_argument("--wait", action="store_true", help="wait until they are gone before returning")
    add_job_arguments(parser, several=True)


def run(arguments: Namespace) -> int:
    """Delete them."""

    def delete(client: TrainingJobClient, name: str) -> None:
        try:
            client.delete_job(name)
        except NotFoundError:
            if not arguments.ignore_not_found:
                raise
            return
        if arguments.wait:
            for _ in client.watch_job(name):  # it ends when the job is gone
                pass
        print(f"TrainingJob {name} deleted.")

    return for_each_job(arguments, delete)
