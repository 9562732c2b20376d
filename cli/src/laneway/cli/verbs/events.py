"""``events``: what happened to a TrainingJob and to its workers."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from laneway.api import clock_text
from laneway.cli.exit_codes import OK
from laneway.cli.job_text import span
from laneway.cli.output import table, write_object
from laneway.cli.verbs.session import add_cluster_options, add_output_option, open_cluster

HELP = "show what happened to a TrainingJob and its workers"


def add(parser: ArgumentParser) -> None:
    """Describe the verb."""
    parser.add_argument("name")
    add_output_option(parser, "json", "yaml")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """Show them, the oldest first."""
    cluster, namespace = open_cluster(arguments)
    job = cluster.read(namespace, arguments.name)
    found = cluster.events(namespace, "TrainingJob", arguments.name)
    for worker in range(job["spec"].get("workers", 1)):
        found += cluster.events(namespace, "Pod", f"{arguments.name}-{worker}")
    found.sort(key=when_seconds)
    if arguments.output:
        write_object({"apiVersion": "v1", "kind": "List", "items": found}, arguments.output)
    elif not found:
        print(f"Nothing has been recorded about {arguments.name}; the cluster forgets events after an hour.")
    else:
        now_seconds = time.time()
        print(
            table(("AGO", "OBJECT", "TYPE", "REASON", "MESSAGE"), [_row(item, now_seconds) for item in found])
        )
    return OK


def when_seconds(event: Mapping[str, Any]) -> float:
    """Return when an event was last seen, in whichever of its fields says so."""
    series = event.get("series") or {}
    for text in (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    ):
        if text:
            return clock_text.to_seconds(text)
    return 0.0


def _row(event: Mapping[str, Any], now_seconds: float) -> list[str]:
    about = event["involvedObject"]
    return [
        span(now_seconds - when_seconds(event)),
        f"{about['kind'].lower()}/{about['name']}",
        event.get("type") or "",
        event.get("reason") or "",
        " ".join((event.get("message") or "").split()),
    ]
