"""A life: its stage, its script, and the end that must not depend on the fault."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from laneway.api import names
from laneway.operator.state.resources import SERVICES

from tests.faults.history import History
from tests.faults.nodes_at_work import NodesAtWork
from tests.faults.patience import patiently
from tests.faults.seeing import Seeing
from tests.support.operator.played_cluster import PlayedCluster

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stage:
    """What a script acts on."""

    cluster: PlayedCluster
    history: History
    nodes: NodesAtWork
    classes: tuple[str, ...]
    """PriorityClasses, rising."""

    @property
    def see(self) -> Seeing:
        """What waits for things."""
        return Seeing(self.history)

    async def submit(self, name: str, **spec: Any) -> None:
        """Create a job, through outages."""
        await patiently(lambda: self.cluster.submit(name, **spec), (409,))

    async def change(self, name: str, **spec: Any) -> None:
        """Change a job's spec."""
        await patiently(lambda: self.cluster.change(name, spec))

    async def delete(self, name: str) -> None:
        """Delete a job."""
        await patiently(lambda: self.cluster.delete_job(name), (404,))

    async def finish(self, name: str, exit_code: int = 0) -> None:
        """End the workers of a job."""
        for pod in self.see.pods(name):
            await patiently(partial(self.cluster.finish, pod, exit_code))


@dataclass(frozen=True, slots=True)
class Life:
    """A scripted life and its environment."""

    name: str
    gpus: tuple[int, ...]
    """Of each node."""

    play: Callable[[Stage], Awaitable[None]]
    percent: int = 100
    """What each GPU offers."""

    refusals: frozenset[tuple[str, int, int]] = frozenset()
    """(job, attempt, rank) of workers that a kubelet does not take."""

    clients: Mapping[str, int] = field(default_factory=dict)
    """By image: the persistent memory in bytes of workers that have a client. All others have none."""

    async def prepare(self, cluster: PlayedCluster) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Set the scene; returns the PriorityClasses and the nodes."""
        nodes = [
            await cluster.add_node(f"n{number}", gpus=gpus, percent=self.percent)
            for number, gpus in enumerate(self.gpus, start=1)
        ]
        classes = [await cluster.add_priority_class(*each) for each in (("urgent", 1000), ("vital", 2000))]
        return tuple(classes), tuple(nodes)

    async def end_state(self, stage: Stage) -> Raw:
        """Return the outcome, which must not depend on kills or on what was observed meanwhile."""
        history = stage.history
        services = await patiently(
            lambda: stage.cluster.api.request("GET", SERVICES.path(stage.cluster.namespace))
        )
        refused = {(job, attempt) for job, attempt, _ in self.refusals}
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
            "orders": [
                order for node in history.nodes for order in (node.get("spec") or {}).get("orders") or ()
            ],
            "services": [each["metadata"]["name"] for each in services["items"]],
            # Of an attempt that a kubelet refused, the other workers may have run by then or not.
            "runs": sorted(
                run.without_uid for run in stage.nodes.runs if (run.job, run.attempt) not in refused
            ),
        }


def _gist(status: Raw) -> Raw:
    return {
        "conditions": sorted((each["type"], each["status"], each["reason"]) for each in status["conditions"]),
        "counts": {name: status.get(name, 0) for name in ("attempt", "preemptions", "rescales", "restarts")},
        "placement": [
            (each["worker"], each["sharePercent"], len(each["gpus"]))
            for each in status.get("placement") or ()
        ],
        "waits for": (status.get("waiting") or {}).get("reason"),
    }
