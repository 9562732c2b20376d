"""The life that is lived in every cell, undisturbed or not: one script, and what must not hang on who disturbed it.

Three GPUs on two nodes. A gang is refused by a kubelet once, starts, makes way for an urgent one and comes back; two jobs share a
GPU, of which one fails and starts again, is suspended and goes on, and one is deleted while it runs; the urgent one is removed
by its TTL; one never fits; and in the end a job that needs every GPU shows that none was left behind.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from laneway.api import names
from laneway.operator.resources import SERVICES

from tests.faults.history import History
from tests.faults.nodes_at_work import NodesAtWork, patiently
from tests.integration.operator.played_cluster import PlayedCluster

Raw = dict[str, Any]

REFUSALS = frozenset({("gang", 1, 1)})
"""A kubelet does not take worker 1 of the gang's first attempt."""


async def prepare(cluster: PlayedCluster) -> tuple[str, tuple[str, ...]]:
    """Set the scene; returns the name of the urgent jobs' PriorityClass, and the nodes."""
    nodes = await asyncio.gather(cluster.add_node("n1", gpus=2), cluster.add_node("n2", gpus=1))
    return await cluster.add_priority_class("urgent", 1000), tuple(nodes)


async def play(cluster: PlayedCluster, history: History, urgent: str) -> None:
    """Live through it; each step waits for the last one's consequences."""
    see = Seeing(history)

    async def submit(name: str, **spec: Any) -> None:
        await patiently(lambda: cluster.submit(name, **spec), (409,))

    async def change(name: str, **spec: Any) -> None:
        await patiently(lambda: cluster.change(name, spec))

    async def finish(name: str, exit_code: int = 0) -> None:
        for pod in see.pods(name):
            await patiently(partial(cluster.finish, pod, exit_code))

    await submit("gang", workers=2)
    await see.running("gang", attempt=2)
    await submit("half", gpus={"share": 50})
    await see.running("half", attempt=1)
    await submit("other", gpus={"share": 50})
    await see.running("other", attempt=1)
    await submit("huge", workers=4)
    await see.waiting("huge", "NotEnoughGPUs")
    await submit("urgent", workers=2, priorityClassName=urgent, ttlSecondsAfterFinished=0)
    await see.running("urgent", attempt=1)
    await finish("half", exit_code=1)
    await see.running("half", attempt=2)
    await finish("urgent")
    await see.gone("urgent")
    await see.running("gang", attempt=3)
    await patiently(lambda: cluster.delete_job("other"), (404,))
    await see.gone("other")
    await change("half", suspend=True)
    await see.waiting("half", "Suspended")
    await see.no_pods("half")
    await change("half", suspend=False)
    await see.running("half", attempt=3)
    await finish("gang")
    await see.condition("gang", "Succeeded")
    await finish("half")
    await see.condition("half", "Succeeded")
    await submit("last", workers=3)
    await see.running("last", attempt=1)
    await finish("last")
    await see.condition("last", "Succeeded")


async def end_state(cluster: PlayedCluster, history: History, nodes: NodesAtWork) -> Raw:
    """Return what must not hang on who was killed, or what was seen, in between."""
    services = await patiently(lambda: cluster.api.request("GET", SERVICES.path(cluster.namespace)))
    return {
        "jobs": {job["metadata"]["name"]: _gist(job["status"]) for job in history.jobs},
        "pods": sorted(
            (
                pod["metadata"]["name"],
                pod["metadata"]["labels"][names.ATTEMPT_LABEL],
                pod["status"]["phase"],
                "deletionTimestamp" in pod["metadata"],
            )
            for pod in history.pods
        ),
        "services": sorted(each["metadata"]["name"] for each in services["items"]),
        # Of an attempt that a kubelet refused, the other workers may have run by then or not.
        "runs": sorted(run.without_uid for run in nodes.runs if (run.job, run.attempt) not in _refused()),
    }


def _refused() -> set[tuple[str, int]]:
    return {(job, attempt) for job, attempt, _ in REFUSALS}


def _gist(status: Raw) -> Raw:
    return {
        "conditions": sorted((each["type"], each["status"], each["reason"]) for each in status["conditions"]),
        "counts": {name: status.get(name, 0) for name in ("attempt", "preemptions", "restarts")},
        "placement": [
            (each["worker"], each["sharePercent"], len(each["gpus"]))
            for each in status.get("placement") or ()
        ],
        "waits for": (status.get("waiting") or {}).get("reason"),
    }


class Seeing:
    """Waits for what a script needs to go on."""

    def __init__(self, history: History) -> None:
        self._history = history

    def pods(self, job: str) -> list[Raw]:
        """Return the pods of a job as they are now."""
        return [pod for pod in self._history.pods if pod["metadata"]["labels"][names.JOB_LABEL] == job]

    def ended(self, job: str) -> bool:
        """Whether all pods of a job have succeeded."""
        return all(pod["status"]["phase"] == "Succeeded" for pod in self.pods(job))

    async def running(self, name: str, attempt: int) -> None:
        """Wait until the operator says that a job runs in an attempt."""

        def look() -> bool:
            return self._holds(name, "Running") and self._status(name).get("attempt") == attempt

        await self._history.until(f"{name} runs in attempt {attempt}", look)

    async def condition(self, name: str, kind: str) -> None:
        """Wait for a condition of a job."""
        await self._history.until(f"{name} has {kind}", lambda: self._holds(name, kind))

    async def waiting(self, name: str, reason: str) -> None:
        """Wait until a job waits for a reason."""

        def look() -> bool:
            return (self._status(name).get("waiting") or {}).get("reason") == reason

        await self._history.until(f"{name} waits for {reason}", look)

    async def gone(self, name: str) -> None:
        """Wait until a job is gone, and its pods with it."""

        def look() -> bool:
            return self._history.job(name) is None and not self.pods(name)

        await self._history.until(f"{name} and its pods are gone", look)

    async def no_pods(self, name: str) -> None:
        """Wait until a job has no pods."""
        await self._history.until(f"{name} has no pods", lambda: not self.pods(name))

    def _status(self, name: str) -> Raw:
        return (self._history.job(name) or {}).get("status") or {}

    def _holds(self, name: str, kind: str) -> bool:
        conditions = self._status(name).get("conditions") or ()
        return any(each["type"] == kind and each["status"] == "True" for each in conditions)
