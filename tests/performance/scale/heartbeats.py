"""What nodes' agents that show that they are alive cost the API server, etcd and the operator: statuses of GPUNodes, or Leases.

    python -m tests.performance.scale.heartbeats --nodes 500 -o heartbeats.json

Until Leases came, each agent wrote its GPUNode's status every 10 s. Now it renews its Lease every 10 s, and writes the status of a
node that trains every 60 s, of an idle node never. Each load of :data:`LOADS` runs twice, the second time in reverse order, with an
operator of its own. One process plays all agents over few connections. A training node has a session on each GPU; these are of plain
pods, because jobs have a benchmark of their own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from laneway.api import names
from laneway.api.node_lease import DURATION_SECONDS, RENEW_SECONDS, lease_name
from laneway.api.rfc3339 import format_time
from laneway.operator.state.resources import GPU_NODES, LEASES
from laneway.operator.watch.apiserver import APPLY_PATCH, Raw

from tests.performance.scale import objects
from tests.performance.scale.client import PARALLEL, for_each
from tests.performance.scale.scenario import SYSTEM, Run, main
from tests.support.operator.operator_process import OperatorProcess

MEASURED_SECONDS = 30.0
SETTLED_SECONDS = 5.0
"""After an operator has begun to lead."""

FIGURES_SECONDS = 60.0
"""Between two writes of a training node's figures: four times ``statusIntervalSeconds``."""


@dataclass(frozen=True, slots=True)
class Load:
    """What each agent does."""

    trains: bool = False
    renew_seconds: float | None = None
    write_seconds: float | None = None


LOADS = {
    "nothing": Load(),
    "idle_statuses": Load(write_seconds=RENEW_SECONDS),
    "idle_leases": Load(renew_seconds=RENEW_SECONDS),
    "training_statuses": Load(trains=True, write_seconds=RENEW_SECONDS),
    "training_leases": Load(trains=True, renew_seconds=RENEW_SECONDS, write_seconds=FIGURES_SECONDS),
}


class Heartbeats(Run):
    """One run of all loads."""

    async def measure(self) -> dict[str, Any]:
        """Return the figures of each load, of both times."""
        self._versions: dict[int, str] = {}
        self._iterations = 0
        await self._make_nodes()
        await for_each(partial(self._create_lease, number) for number in range(self._nodes))
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in LOADS}
        for name in (*LOADS, *reversed(LOADS)):
            rounds[name].append(await self._round(name, LOADS[name]))
        return {"nodes": self._nodes, "seconds": MEASURED_SECONDS, "rounds": rounds}

    async def _round(self, name: str, load: Load) -> dict[str, Any]:
        self._say(name)
        await for_each(partial(self._write, load.trains, number) for number in range(self._nodes))
        folder = self._folder / f"{name}-{self._iterations}"
        self._operator = OperatorProcess(
            folder, self._cluster.kubeconfig, SYSTEM, {"metricsPort": 0, "logLevel": "debug"}
        )
        milliseconds: list[float] = []
        with self._operator:
            await self._until_it_leads()
            await asyncio.sleep(SETTLED_SECONDS)
            found = await self._phase(lambda: self._play(load, milliseconds))
        milliseconds.sort()
        wanted = sum(
            self._nodes / seconds * MEASURED_SECONDS
            for seconds in (load.renew_seconds, load.write_seconds)
            if seconds
        )
        found |= {"requests": len(milliseconds), "requests_wanted": round(wanted)}
        if milliseconds:
            found["request_p50_milliseconds"] = milliseconds[len(milliseconds) // 2]
            found["request_p99_milliseconds"] = milliseconds[int(0.99 * (len(milliseconds) - 1))]
        return found

    async def _play(self, load: Load, milliseconds: list[float]) -> None:
        """Play all agents for a while; note the duration of each request."""
        end = time.monotonic() + MEASURED_SECONDS
        loops = [asyncio.sleep(MEASURED_SECONDS)]
        if load.renew_seconds:
            loops.append(self._repeat(self._renew, load.renew_seconds, end, milliseconds))
        if load.write_seconds:
            loops.append(
                self._repeat(partial(self._write, load.trains), load.write_seconds, end, milliseconds)
            )
        await asyncio.gather(*loops)

    async def _repeat(
        self, act: Callable[[int], Awaitable[None]], interval: float, end: float, milliseconds: list[float]
    ) -> None:
        """Have each agent act at intervals, the agents one after another; requests that are late follow at once."""
        began, numbers = time.monotonic(), count()

        async def work() -> None:
            for number in numbers:
                due = began + number * interval / self._nodes
                if max(due, time.monotonic()) >= end:
                    return
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                sent = time.monotonic()
                await act(number % self._nodes)
                milliseconds.append(1e3 * (time.monotonic() - sent))

        await asyncio.gather(*(work() for _ in range(PARALLEL)))

    async def _create_lease(self, number: int) -> None:
        answer = await self._api.request("POST", LEASES.path(SYSTEM), body=_lease(number))
        self._versions[number] = answer["metadata"]["resourceVersion"]

    async def _renew(self, number: int) -> None:
        body = _lease(number)
        body["metadata"]["resourceVersion"] = self._versions[number]
        answer = await self._api.request("PUT", LEASES.path(SYSTEM, body["metadata"]["name"]), body=body)
        self._versions[number] = answer["metadata"]["resourceVersion"]

    async def _write(self, trains: bool, number: int) -> None:
        body = objects.agents_word(number)
        if trains:
            self._iterations += 100
            for gpu in body["status"]["gpus"]:
                gpu["sessions"] = [objects.a_session(gpu, self._iterations)]
        await self._api.request(
            "PATCH",
            GPU_NODES.path(name=objects.node_name(number), subresource="status"),
            query={"fieldManager": names.NODE_FIELD_MANAGER, "force": "true"},
            body=body,
            content_type=APPLY_PATCH,
        )


def _lease(number: int) -> Raw:
    node = objects.node_name(number)
    spec = {
        "holderIdentity": node,
        "leaseDurationSeconds": DURATION_SECONDS,
        "renewTime": format_time(time.time()),
    }
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": lease_name(node)},
        "spec": spec,
    }


if __name__ == "__main__":
    main(Heartbeats)
