"""``events``: the events of a TrainingJob and its workers."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace

from laneway.api.durations import duration
from laneway.cli.exit_codes import OK
from laneway.cli.output import table, write_object
from laneway.cli.verbs.options import add_job_arguments, add_output_option, open_client
from laneway.sdk import Event

HELP = "List the events of a TrainingJob and its workers"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_output_option(parser)
    add_job_arguments(parser)


def run(arguments: Namespace) -> int:
    """List them, the oldest first."""
    found = open_client(arguments).get_job_events(arguments.name)
    if arguments.output:
        items = [dict(event.object) for event in found]
        write_object({"apiVersion": "v1", "kind": "List", "items": items}, arguments.output)
    elif not found:
        print(f"No events found for {arguments.name}; clusters delete events, usually after an hour.")
    else:
        now_seconds = time.time()
        rows = [_row(item, now_seconds) for item in found]
        print(table(("LAST SEEN", "OBJECT", "TYPE", "REASON", "MESSAGE"), rows))
    return OK


def _row(event: Event, now_seconds: float) -> list[str]:
    return [
        duration(now_seconds - event.event_time.timestamp()),
        f"{event.involved_object_kind.lower()}/{event.involved_object_name}",
        event.type,
        event.reason,
        event.message,
    ]
