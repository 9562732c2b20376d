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

from laneway.api.node_lease import RENEW_SECONDS

from tests.performance.scale import objects
from tests.performance.scale.client import PARALLEL, for_each
from tests.performance.scale.leases import AgentLeases
from tests.performance.scale.run import SYSTEM, Run, main
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
        leases = AgentLeases(self.api)
        self._iterations = 0
        await self.make_nodes()
        await for_each(partial(leases.create, number) for number in range(self.nodes))
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in LOADS}
        for name in (*LOADS, *reversed(LOADS)):
            rounds[name].append(await self._round(name, LOADS[name], leases))
        return {"nodes": self.nodes, "seconds": MEASURED_SECONDS, "rounds": rounds}

    async def _round(self, name: str, load: Load, leases: AgentLeases) -> dict[str, Any]:
        self.say(name)
        await for_each(partial(self._write, load.trains, number) for number in range(self.nodes))
        folder = self.folder / f"{name}-{self._iterations}"
        self.operator = OperatorProcess(folder, self.cluster.kubeconfig, SYSTEM, self.config)
        milliseconds: list[float] = []
        with self.operator:
            await self.until_it_leads()
            await asyncio.sleep(SETTLED_SECONDS)
            found = await self.phase(lambda: self._play(load, leases, milliseconds))
        milliseconds.sort()
        wanted = sum(
            self.nodes / seconds * MEASURED_SECONDS
            for seconds in (load.renew_seconds, load.write_seconds)
            if seconds
        )
        found |= {"requests": len(milliseconds), "requests_wanted": round(wanted)}
        if milliseconds:
            found["request_p50_milliseconds"] = milliseconds[len(milliseconds) // 2]
            found["request_p99_milliseconds"] = milliseconds[int(0.99 * (len(milliseconds) - 1))]
        return found

    async def _play(self, load: Load, leases: AgentLeases, milliseconds: list[float]) -> None:
        """Play all agents for a while; note the duration of each request."""
        end = time.monotonic() + MEASURED_SECONDS
        loops = [asyncio.sleep(MEASURED_SECONDS)]
        if load.renew_seconds:
            loops.append(self._repeat(leases.renew, load.renew_seconds, end, milliseconds))
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
                due = began + number * interval / self.nodes
                if max(due, time.monotonic()) >= end:
                    return
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                sent = time.monotonic()
                await act(number % self.nodes)
                milliseconds.append(1e3 * (time.monotonic() - sent))

        await asyncio.gather(*(work() for _ in range(PARALLEL)))

    async def _write(self, trains: bool, number: int) -> None:
        body = objects.agents_word(number)
        if trains:
            self._iterations += 100
            for gpu in body["status"]["gpus"]:
                gpu["sessions"] = [objects.a_session(gpu, self._iterations)]
        await self.write_as_agent(body)


if __name__ == "__main__":
    main(Heartbeats)
