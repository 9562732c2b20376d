"""``logs``: a worker's log, through preemptions and restarts if it is followed."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from laneway.api.job_conditions import ConditionType
from laneway.cli import job_format
from laneway.cli.cluster import Cluster
from laneway.cli.exit_codes import FAILED, NOT_FOUND, OK, USAGE, CommandError
from laneway.cli.verbs.options import add_job_arguments, open_cluster

HELP = "Print the logs of a worker"
_TRAINER = "trainer"
_POLL_SECONDS = 1.0


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "-f", "--follow", action="store_true", help="stream the logs of all attempts until the job has ended"
    )
    parser.add_argument(
        "-w", "--worker", type=int, default=0, help="rank of the worker (default: %(default)s)"
    )
    parser.add_argument(
        "-c", "--container", help=f"name of the container (default: {_TRAINER}, else the first)"
    )
    add_job_arguments(parser)


def run(arguments: Namespace) -> int:
    """Write the worker's log to standard output."""
    cluster, namespace = open_cluster(arguments)
    job = cluster.read(namespace, arguments.name)
    ranks = job_format.ranks(job)
    if not 0 <= arguments.worker < ranks:
        raise CommandError(
            f"--worker is {arguments.worker}: {arguments.name} has the ranks 0 to {ranks - 1}", USAGE
        )
    if arguments.follow:
        return _follow(cluster, namespace, arguments)
    pod = cluster.pod(namespace, f"{arguments.name}-{arguments.worker}")
    if pod is None or not has_started(pod, container_of(pod, arguments.container)):
        raise CommandError("no logs yet: " + " ".join(job_format.explanation(job, time.time())), NOT_FOUND)
    _write(cluster, namespace, pod, arguments, follow=False)
    return OK


def _follow(cluster: Cluster, namespace: str, arguments: Namespace) -> int:
    """Write one attempt after the other, until the job has ended."""
    written: set[str] = set()
    printed = ""
    while True:
        job = cluster.read(namespace, arguments.name)
        pod = cluster.pod(namespace, f"{arguments.name}-{arguments.worker}")
        if pod is not None and pod["metadata"]["uid"] not in written:
            if has_started(pod, container_of(pod, arguments.container)):
                written.add(pod["metadata"]["uid"])
                _write(cluster, namespace, pod, arguments, follow=True)
                continue
        elif job_format.finished(job):
            return FAILED if job_format.condition_holds(job, ConditionType.FAILED) else OK
        explanation = job_format.explanation(job, time.time())[0]
        if pod is None and explanation != printed:
            printed = explanation
            print(f"# {explanation}", file=sys.stderr, flush=True)
        time.sleep(_POLL_SECONDS)


def _write(
    cluster: Cluster, namespace: str, pod: Mapping[str, Any], arguments: Namespace, *, follow: bool
) -> None:
    container = container_of(pod, arguments.container)
    for chunk in cluster.log(namespace, pod["metadata"]["name"], container, follow=follow):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def container_of(pod: Mapping[str, Any], requested: str | None) -> str:
    """Return the requested container, or the default one.

    Raises:
        CommandError: the pod has no container of that name.
    """
    names = [item["name"] for item in pod["spec"]["containers"]]
    if requested is None:
        return _TRAINER if _TRAINER in names else names[0]
    if requested not in names:
        raise CommandError(f"--container is {requested}: the pod has {', '.join(names)}", USAGE)
    return requested


def has_started(pod: Mapping[str, Any], container: str) -> bool:
    """Whether a container has started, so that it has a log."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    state = next((item.get("state") or {} for item in statuses if item["name"] == container), {})
    return bool(state.get("running") or state.get("terminated"))
