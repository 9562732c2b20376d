"""``delete``: deletes TrainingJobs; their workers get their grace period for a checkpoint."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from laneway.cli.exit_codes import NOT_FOUND, OK, CommandError
from laneway.cli.verbs.options import add_cluster_options, open_cluster

HELP = "Delete TrainingJobs"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("name", nargs="+", help="names of the TrainingJobs")
    parser.add_argument(
        "--ignore-not-found", action="store_true", help="treat a missing TrainingJob as deleted"
    )
    parser.add_argument("--wait", action="store_true", help="wait until they are gone before returning")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """Delete them, in the order of the command line."""
    cluster, namespace = open_cluster(arguments)
    for name in arguments.name:
        try:
            cluster.delete(namespace, name)
        except CommandError as error:
            if error.exit_code != NOT_FOUND or not arguments.ignore_not_found:
                raise
            continue
        if arguments.wait:
            for job in cluster.watch(namespace, name, None):
                if job is None:
                    break
        print(f"TrainingJob {name} deleted.")
    return OK
