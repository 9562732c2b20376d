"""``list``: the TrainingJobs, one per line."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from laneway.cli.exit_codes import OK
from laneway.cli.job_table import FORMATS, in_order, show_changes, show_jobs
from laneway.cli.verbs.options import add_output_option, add_selection_options, open_client

HELP = "List TrainingJobs"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("-w", "--watch", action="store_true", help="list them, then each that changes")
    add_output_option(parser, *FORMATS)
    add_selection_options(parser)


def run(arguments: Namespace) -> int:
    """List them: unfinished ones first, the oldest first."""
    client, everywhere = open_client(arguments), arguments.all_namespaces
    if arguments.watch:
        snapshots = client.watch_jobs(label_selector=arguments.selector, all_namespaces=everywhere)
        show_changes(snapshots, arguments.output, namespaces=everywhere)
        return OK
    jobs = in_order(client.list_jobs(label_selector=arguments.selector, all_namespaces=everywhere))
    if jobs or arguments.output in ("json", "yaml", "name"):
        show_jobs(jobs, arguments.output, namespaces=everywhere)
    else:
        print("No TrainingJobs found" + ("." if everywhere else f" in namespace {client.namespace}."))
    return OK
