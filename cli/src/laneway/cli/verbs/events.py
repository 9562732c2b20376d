"""``events``: the events of a TrainingJob and its workers."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any

from laneway.api import rfc3339
from laneway.cli.exit_codes import OK
from laneway.cli.job_format import duration, ranks
from laneway.cli.output import table, write_object
from laneway.cli.verbs.options import add_job_arguments, open_cluster

HELP = "List the events of a TrainingJob and its workers"

add_arguments = partial(add_job_arguments, output=True)


def run(arguments: Namespace) -> int:
    """List them, the oldest first."""
    cluster, namespace = open_cluster(arguments)
    job = cluster.read(namespace, arguments.name)
    found = cluster.events(namespace, "TrainingJob", arguments.name)
    for worker in range(max(ranks(job), job["spec"].get("maxWorkers") or 0)):
        found += cluster.events(namespace, "Pod", f"{arguments.name}-{worker}")
    found = [event for event in found if not of_an_earlier_job(event, job["metadata"])]
    found.sort(key=last_seen_seconds)
    if arguments.output:
        write_object({"apiVersion": "v1", "kind": "List", "items": found}, arguments.output)
    elif not found:
        print(f"No events found for {arguments.name}; clusters delete events, usually after an hour.")
    else:
        now_seconds = time.time()
        rows = [_row(item, now_seconds) for item in found]
        print(table(("LAST SEEN", "OBJECT", "TYPE", "REASON", "MESSAGE"), rows))
    return OK


def last_seen_seconds(event: Mapping[str, Any]) -> float:
    """Return when an event was last seen, from the first of its time fields that is set."""
    series = event.get("series") or {}
    for text in (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    ):
        if text:
            return rfc3339.parse_time(text)
    return 0.0


def of_an_earlier_job(event: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether an event is about a deleted job of the same name, or about a worker of one.

    Args:
        event: about a job of this name or a pod of its workers' names.
        metadata: the job's.
    """
    about = event["involvedObject"]
    if about["kind"] == "TrainingJob":
        return bool(about.get("uid", metadata["uid"]) != metadata["uid"])
    written, created = (
        rfc3339.parse_time(each["creationTimestamp"]) for each in (event["metadata"], metadata)
    )
    return written < created


def _row(event: Mapping[str, Any], now_seconds: float) -> list[str]:
    about = event["involvedObject"]
    return [
        duration(now_seconds - last_seen_seconds(event)),
        f"{about['kind'].lower()}/{about['name']}",
        event.get("type") or "",
        event.get("reason") or "",
        " ".join((event.get("message") or "").split()),
    ]
