"""``logs``: what a worker writes, through preemptions and restarts when it is followed."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from laneway.cli import job_text
from laneway.cli.cluster import Cluster
from laneway.cli.exit_codes import FAILED, NOT_FOUND, OK, USAGE, CommandError
from laneway.cli.verbs.session import add_cluster_options, open_cluster

HELP = "show what a worker writes"
_TRAINER = "trainer"
_LOOK_AGAIN_SECONDS = 1.0


def add(parser: ArgumentParser) -> None:
    """Describe the verb."""
    parser.add_argument("name")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the job has ended, in its next attempts too"
    )
    parser.add_argument("-w", "--worker", type=int, default=0, help="the worker's rank; 0 by default")
    parser.add_argument("-c", "--container", help=f"{_TRAINER}, else the first, by default")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """Write the worker's log to standard output."""
    cluster, namespace = open_cluster(arguments)
    job = cluster.read(namespace, arguments.name)
    workers = job["spec"].get("workers", 1)
    if not 0 <= arguments.worker < workers:
        raise CommandError(
            f"--worker is {arguments.worker}: {arguments.name} has the ranks 0 to {workers - 1}", USAGE
        )
    if arguments.follow:
        return _follow(cluster, namespace, arguments)
    pod = cluster.pod(namespace, f"{arguments.name}-{arguments.worker}")
    if pod is None or not has_started(pod, container_of(pod, arguments.container)):
        raise CommandError(
            "nothing is written yet: " + " ".join(job_text.explained(job, time.time())), NOT_FOUND
        )
    _write(cluster, namespace, pod, arguments, follow=False)
    return OK


def _follow(cluster: Cluster, namespace: str, arguments: Namespace) -> int:
    """Write one attempt after the other, until the job has ended."""
    seen: set[str] = set()
    said = ""
    while True:
        job = cluster.read(namespace, arguments.name)
        pod = cluster.pod(namespace, f"{arguments.name}-{arguments.worker}")
        if pod is not None and pod["metadata"]["uid"] not in seen:
            if has_started(pod, container_of(pod, arguments.container)):
                seen.add(pod["metadata"]["uid"])
                _write(cluster, namespace, pod, arguments, follow=True)
                continue
        elif job_text.finished(job):
            return FAILED if job_text.condition_holds(job, "Failed") else OK
        explained = job_text.explained(job, time.time())[0]
        if pod is None and explained != said:
            said = explained
            print(f"# {said}", file=sys.stderr, flush=True)
        time.sleep(_LOOK_AGAIN_SECONDS)


def _write(
    cluster: Cluster, namespace: str, pod: Mapping[str, Any], arguments: Namespace, *, follow: bool
) -> None:
    container = container_of(pod, arguments.container)
    for chunk in cluster.log(namespace, pod["metadata"]["name"], container, follow=follow):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def container_of(pod: Mapping[str, Any], wanted: str | None) -> str:
    """Return the container whose log is meant.

    Raises:
        CommandError: the pod has none of that name.
    """
    names = [item["name"] for item in pod["spec"]["containers"]]
    if wanted is None:
        return _TRAINER if _TRAINER in names else names[0]
    if wanted not in names:
        raise CommandError(f"--container is {wanted}: the pod has {', '.join(names)}", USAGE)
    return wanted


def has_started(pod: Mapping[str, Any], container: str) -> bool:
    """Whether a container has begun, so that it has a log."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    state = next((item.get("state") or {} for item in statuses if item["name"] == container), {})
    return bool(state.get("running") or state.get("terminated"))
