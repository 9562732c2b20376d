"""Measures the operator with thousands of gang jobs on a thousand nodes: how fast pods are bound and jobs placed, its CPU and memory use.

    python -m tests.performance.scale.scenario --nodes 100 --jobs 500 -o scale.json

All parts run one after the other on one control plane (``cluster.py``), on which four times as many jobs have ended before:

1. A bare client fills all GPUs with the pods that the operator would create. The first time kube-scheduler binds them, the
   second time the client does. The pods are removed each time (``yardstick.py``).
2. The operator starts, all jobs are submitted at once, and bound pods are counted (``submission.py``).
3. The operator writes to each waiting job why it waits.
4. Nothing happens for a while.
5. The nodes' agents report sessions and renew Leases as in a real cluster, from now on (``agents.py``). Jobs have run for so long that
   others may preempt them.
6. Again nothing happens.
7. Jobs end and others are submitted (``churn.py``).
8. The operator is killed and started again (``restart.py``).
9. Only jobs that run are left, and some GPUs are free. Nothing happens for a while; then single jobs come (``reaction.py``).
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar

from laneway.operator.state.resources import PRIORITY_CLASSES
from laneway.operator.watch.apiserver import Raw

from tests.performance.scale.agents import playing_agents
from tests.performance.scale.bare_client import BareClient
from tests.performance.scale.churn import churn
from tests.performance.scale.ended_jobs import make_ended_jobs
from tests.performance.scale.job_mix import PRIORITIES, a_mixed_job
from tests.performance.scale.reaction import make_room, reaction
from tests.performance.scale.restart import restart
from tests.performance.scale.run import NAMESPACE, Run, main
from tests.performance.scale.submission import submission
from tests.performance.scale.yardstick import bound_by_client, bound_by_scheduler

IDLE_SECONDS = 300.0
"""In this time the idle operator lists all objects once, and runs one full Python garbage collection."""

PROTECTED_SECONDS = 500.0
"""``minRunSeconds`` of the default preemption policy: until then, no job is preempted."""

PREEMPTING_SECONDS = 120.0
AGENTS_SECONDS = 60.0


class Scenario(Run):
    """One run of all parts."""

    controllers = True
    config: ClassVar[dict[str, Any]] = {
        "metricsPort": 0,
        "logLevel": "debug",
        # Until the agents are played, the Leases of none are renewed.
        "timeouts": {"silentNodeSeconds": 86_400},
    }

    def a_job(self, name: str, workers: int) -> Raw:
        """Return one job of the mix."""
        return a_mixed_job(name, NAMESPACE, workers)

    async def measure(self) -> dict[str, Any]:
        """Return all figures."""
        await self.make_nodes()
        await self._make_priorities()
        by_scheduler = await bound_by_scheduler(self)
        bare = await bound_by_client(self)
        found: dict[str, Any] = {
            "nodes": self.nodes,
            "gpus": self.gpus,
            "jobs": self.jobs,
            "ended_jobs": await make_ended_jobs(self),
            "bare_client": {"pods": bare.pods, "seconds": bare.seconds, "pods_a_second": bare.pods_a_second},
            "bound_by_scheduler_pods_a_second": by_scheduler,
        }
        with self.operator:
            found |= await self._without_agents(bare)
            async with playing_agents(self):
                found |= await self._with_agents()
            figures = self.of_operator()
        peaks = [part["operator_peak_memory_mib"] for part in found.values() if _is_part(part)]
        found["operator_memory_mib"] = {"at_the_end": figures.memory_mib, "largest": max(peaks)}
        return found

    async def _without_agents(self, bare: BareClient) -> dict[str, Any]:
        await self.until_it_leads()
        self._submitted_at = time.monotonic()
        found = {"from_submission_to_bound": await submission(self, bare)}
        self.say("waiting until all jobs have been told where they stand")
        found["told"] = await self.phase(self.until_settled)
        self.say("nothing happens")
        found["idle"] = await self.phase(lambda: asyncio.sleep(IDLE_SECONDS))
        return found

    async def _with_agents(self) -> dict[str, Any]:
        self.say("until running jobs may be preempted")
        first_start = self._submitted_at
        await asyncio.sleep(max(0.0, first_start + PROTECTED_SECONDS - time.monotonic()))
        found = {"preempting": await self.phase(lambda: asyncio.sleep(PREEMPTING_SECONDS))}
        self.say("nothing happens")
        found["idle_with_agents"] = await self.phase(lambda: asyncio.sleep(AGENTS_SECONDS))
        found["jobs_come_and_go"] = await self.phase(lambda: churn(self))
        found["restart"] = await restart(self)
        await make_room(self)
        self.say("nothing happens, and nothing waits")
        found["idle_none_waits"] = await self.phase(lambda: asyncio.sleep(AGENTS_SECONDS))
        found["reaction"] = await reaction(self)
        return found

    async def _make_priorities(self) -> None:
        for name, value in PRIORITIES.items():
            body = {
                "apiVersion": PRIORITY_CLASSES.api_version,
                "kind": PRIORITY_CLASSES.kind,
                "metadata": {"name": name},
                "value": value,
            }
            await self.api.request("POST", PRIORITY_CLASSES.path(), body=body)


def _is_part(found: Any) -> bool:
    return isinstance(found, dict) and "operator_peak_memory_mib" in found


if __name__ == "__main__":
    main(Scenario)
