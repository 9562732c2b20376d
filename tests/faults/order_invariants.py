"""The invariants of jobs that are preempted in place: the orders to nodes, and their answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.faults.moment import Moment, has_ended, orders_of, preempted_in_place, worker_of

Raw = dict[str, Any]


class Orders:
    """Remembers the intended orders and checks the actual ones against them."""

    def __init__(self) -> None:
        self._meant: set[tuple[str, int, str]] = set()
        """Job's uid, attempt and depth, of all statuses so far."""

        self._workers: dict[str, tuple[str, int, int]] = {}
        """All pods so far, by uid."""

    def note_pod(self, pod: Raw | None) -> None:
        """Take note of a pod."""
        if pod is not None:
            self._workers[pod["metadata"]["uid"]] = worker_of(pod)

    def of_job(self, before: Raw | None, after: Raw | None, moment: Moment) -> Iterator[str]:
        """Yield the violations in a job's current status: a job is paused when all of its nodes have reported
        so."""
        way = preempted_in_place(after)
        if after is None or way is None:
            return
        depth, reached = way
        uid, attempt = after["metadata"]["uid"], int(after["status"]["attempt"])
        self._meant.add((uid, attempt, depth))
        if not reached or preempted_in_place(before) == way:
            return
        for pod in moment.pods.values():
            if (
                worker_of(pod)[:2] == (uid, attempt)
                and not has_ended(pod)
                and not moment.has_followed(pod, depth)
            ):
                states = ", ".join(moment.states(pod["metadata"]["uid"])) or "nothing"
                name = pod["metadata"]["name"]
                yield f"{after['metadata']['name']} is reported as preempted in place ({depth}); the node says of {name}: {states}"

    def of_node(self, before: Raw | None, after: Raw | None, moment: Moment) -> Iterator[str]:
        """Yield the violations in a node's current orders: an order follows its job's status, and stays until
        the job resumes or the worker has ended."""
        old, new = orders_of(before), orders_of(after)
        for uid, order in new.items():
            worker = self._workers.get(uid)
            if old.get(uid) != order and (worker is None or (*worker[:2], order) not in self._meant):
                yield f"{_who(moment, uid)} is told to {order}, which no status of its job has said"
        for uid, order in old.items():
            pod = moment.pods.get(uid)
            if uid in new or pod is None or has_ended(pod):
                continue
            job_uid, attempt, _ = worker_of(pod)
            job = moment.jobs.get(job_uid)
            if (
                job is not None
                and preempted_in_place(job) == (order, True)
                and job["status"]["attempt"] == attempt
            ):
                yield f"{_who(moment, uid)} is let go on, though its job is preempted in place ({order})"


def _who(moment: Moment, pod_uid: str) -> str:
    pod = moment.pods.get(pod_uid)
    return f"pod {pod_uid}, which is not there," if pod is None else str(pod["metadata"]["name"])
