"""``delete``: remove TrainingJobs; their workers get their grace period for a checkpoint."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from laneway.cli.exit_codes import NOT_FOUND, OK, CommandError
from laneway.cli.verbs.session import add_cluster_options, open_cluster

HELP = "delete TrainingJobs"


def add(parser: ArgumentParser) -> None:
    """Describe the verb."""
    parser.add_argument("name", nargs="+")
    parser.add_argument("--ignore-not-found", action="store_true", help="a job that is not there is no error")
    parser.add_argument("--wait", action="store_true", help="return only when they are gone")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """Delete them, in the order in which they were named."""
    cluster, namespace = open_cluster(arguments)
    for name in arguments.name:
        try:
            cluster.delete(namespace, name)
        except CommandError as error:
            if error.exit_code != NOT_FOUND or not arguments.ignore_not_found:
                raise
            continue
        if arguments.wait:
            for job in cluster.changes(namespace, name, None):
                if job is None:
                    break
        print(f"TrainingJob {name} deleted.")
    return OK
