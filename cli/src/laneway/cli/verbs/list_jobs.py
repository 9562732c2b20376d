"""``list``: the TrainingJobs, one per line."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from laneway.cli.exit_codes import OK
from laneway.cli.job_table import FORMATS, changed_jobs, job_listing
from laneway.cli.verbs.options import (
    add_output_option,
    add_selection_options,
    add_watch_option,
    open_client,
)

HELP = "List TrainingJobs"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_watch_option(parser, "list them, then each that changes")
    add_output_option(parser, *FORMATS)
    add_selection_options(parser)


def run(arguments: Namespace) -> int:
    """List them: unfinished ones first, the oldest first."""
    client, everywhere = open_client(arguments), arguments.all_namespaces
    listing = job_listing(namespaces=everywhere)
    if arguments.watch:
        snapshots = client.watch_jobs(label_selector=arguments.selector, all_namespaces=everywhere)
        listing.show_changes(changed_jobs(snapshots), arguments.output)
        return OK
    jobs = client.list_jobs(label_selector=arguments.selector, all_namespaces=everywhere)
    empty = "No TrainingJobs found" + ("." if everywhere else f" in namespace {client.namespace}.")
    listing.show(jobs, arguments.output, empty=empty)
    return OK
