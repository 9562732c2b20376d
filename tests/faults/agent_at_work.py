"""The agent of one node at work: it reports the sessions of the workers that run there, and follows the orders to them.

Level-triggered, like the real one: it computes the next report from the current cluster, until nothing is
new. An offload is reported in two steps, paused and then moved. A killed agent does not report. When it
returns, no client has reconnected yet, so its first report has no sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from laneway.api import names

from tests.faults.history import History
from tests.faults.patience import patiently
from tests.support.operator.played_cluster import GIB, PlayedCluster

Raw = dict[str, Any]

_NEXT = {("Holding", "Pause"): "Paused", ("Holding", "Offload"): "Paused", ("Paused", "Offload"): "Offloaded"}
"""The next state, by current state and order."""


class AgentAtWork:
    """One node's agent across its restarts."""

    def __init__(
        self, cluster: PlayedCluster, history: History, node: str, clients: Mapping[str, int]
    ) -> None:
        """Report for workers whose image is in ``clients``, which has their persistent memory in bytes."""
        self._cluster = cluster
        self._history = history
        self._node = node
        self._clients = clients
        self._alive = True
        self._states: dict[str, str] = {}
        self._said: list[Raw] = []
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Something has changed."""
        self._woken.set()

    def kill(self) -> None:
        """Stop reporting. A report in flight may still arrive."""
        self._alive = False

    def start(self) -> None:
        """Work again; no session has reconnected yet."""
        self._alive = True
        self._states.clear()
        self._said = [{"nobody": "is there"}]
        self.wake()

    async def work(self) -> None:
        """Work until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._alive and await self._say_something():
                pass

    async def _say_something(self) -> bool:
        """Write the next report; return whether there may be more."""
        node = self._history.node(self._node)
        if node is None:
            return False
        back_again = self._said == [{"nobody": "is there"}]
        sessions = [] if back_again else self._sessions(node)
        if sessions == self._said:
            return False
        gpus = [dict(gpu) for gpu in node["status"]["gpus"]]
        for gpu in gpus:
            gpu["sessions"] = [each["session"] for each in sessions if each["gpu"] == gpu["uuid"]]
        self._said = sessions
        await patiently(lambda: self._cluster.report(self._node, gpus))
        return True

    def _sessions(self, node: Raw) -> list[Raw]:
        """Return the current sessions, one step further."""
        orders = {each["podUID"]: each["order"] for each in (node.get("spec") or {}).get("orders") or ()}
        found = []
        for pod in self._history.pods:
            persistent_bytes = self._clients.get(pod["spec"]["containers"][0]["image"])
            if pod["spec"].get("nodeName") != self._node or persistent_bytes is None:
                continue
            phase, uid = (pod.get("status") or {}).get("phase"), pod["metadata"]["uid"]
            if phase == "Running":
                state = self._next(self._states.get(uid, "Holding"), orders.get(uid))
            elif phase in ("Succeeded", "Failed"):
                state = "Ended"
            else:
                continue
            self._states[uid] = state
            session = {
                "key": uid.replace("-", "")[:16],
                "namespace": self._cluster.namespace,
                "pod": pod["metadata"]["name"],
                "podUID": uid,
                "container": "trainer",
                "sharePercent": 100,
                "quotaBytes": next(iter(node["status"]["gpus"]))["allocatableBytes"],
                "state": state,
                "turns": 1,
                "persistentBytes": persistent_bytes,
                "ephemeralBytes": GIB,
                "profiled": True,
            }
            found += [
                {"gpu": gpu, "session": session}
                for gpu in pod["metadata"]["annotations"][names.GPUS_ANNOTATION].split(",")
            ]
        return sorted(found, key=lambda each: (each["gpu"], each["session"]["key"]))

    @staticmethod
    def _next(state: str, order: str | None) -> str:
        return "Holding" if order is None else _NEXT.get((state, order), state)
