"""``list``: the TrainingJobs, one per line."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from laneway.cli.exit_codes import OK
from laneway.cli.job_table import FORMATS, job_listing, show_selected
from laneway.cli.verbs.options import (
    add_output_option,
    add_selection_options,
    add_watch_option,
    open_client,
)

HELP = "List TrainingJobs"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_watch_option(parser, "list them, then each that changes; the table shows one that is gone as Deleted")
    add_output_option(parser, *FORMATS)
    add_selection_options(parser)


def run(arguments: Namespace) -> int:
    """List them: unfinished ones first, the oldest first."""
    listing = job_listing(namespaces=arguments.all_namespaces)
    show_selected(open_client(arguments), arguments, listing, empty="No TrainingJobs found")
    return OK
