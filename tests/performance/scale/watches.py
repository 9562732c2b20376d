"""TrainingJobs on kopf and on the raw stream, in turns: pods bound a second, processor time, memory, and how soon a change is in the cache.

    python -m tests.performance.scale.watches --nodes 300 --jobs 1500 -o watches.json

In each round all jobs are submitted to an operator of their own, and are removed after it. The order is raw, kopf, kopf, raw, raw, kopf,
so that a machine or an etcd that becomes slower meets both alike.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from laneway.operator.state.resources import TRAINING_JOBS

from tests.performance.scale.bare_client import BareClient
from tests.performance.scale.run import JOBS_ONLY, NAMESPACE, SYSTEM, Run, main
from tests.performance.scale.submission import submission
from tests.performance.scale.watched_operator import SENT
from tests.performance.scale.yardstick import bound_by_client
from tests.support.operator.operator_process import OperatorProcess

ORDER = ("raw", "kopf", "kopf", "raw", "raw", "kopf")
REACTIONS, REACTIONS_A_SECOND = 200, 10.0
"""Jobs that are changed, to measure how soon the operator's cache shows it."""


class WatchComparison(Run):
    """One run of all rounds."""

    config = JOBS_ONLY

    async def measure(self) -> dict[str, Any]:
        """Return the figures of each round, by watch."""
        await self.make_nodes()
        bare = await bound_by_client(self)
        rounds: dict[str, list[dict[str, float]]] = {watch: [] for watch in ORDER}
        for watch in ORDER:
            rounds[watch].append(await self._round(watch, bare))
            await self.remove_jobs()
        return {
            "nodes": self.nodes,
            "gpus": self.gpus,
            "jobs": self.jobs,
            "order": ORDER,
            "rounds": rounds,
        }

    async def _round(self, watch: str, bare: BareClient) -> dict[str, float]:
        self.say(f"TrainingJobs are watched by {watch}")
        module = ("tests.performance.scale.watched_operator", watch)
        folder = self.folder / f"{watch}-{len(self.workers)}"
        self.operator = OperatorProcess(folder, self.cluster.kubeconfig, SYSTEM, self.config, module)
        with self.operator:
            await self.until_it_leads()
            submitted = await submission(self, bare)
            await self.until_settled()
            await self._annotate()
        milliseconds = sorted(
            json.loads(line)["milliseconds"]
            for line in self.operator.log.splitlines()
            if '"message": "reaction"' in line
        )
        if not milliseconds:
            raise RuntimeError(f"no annotation reached the cache: {self.operator.log[-3000:]}")
        return {
            "pods_bound_a_second": submitted["pods_bound_a_second"],
            "all_bound_after_seconds": submitted["all_bound_after_seconds"],
            "operator_cpu_seconds": submitted["operator_cpu_seconds"],
            "operator_peak_memory_mib": submitted["operator_peak_memory_mib"],
            "reactions": len(milliseconds),
            "reaction_p50_milliseconds": milliseconds[len(milliseconds) // 2],
            "reaction_p99_milliseconds": milliseconds[int(0.99 * (len(milliseconds) - 1))],
        }

    async def _annotate(self) -> None:
        """Write the time of the request into jobs, one after another."""
        listed = await self.api.request("GET", TRAINING_JOBS.path(NAMESPACE), query={"limit": str(REACTIONS)})
        for job in listed["items"]:
            await self.api.request(
                "PATCH",
                TRAINING_JOBS.path(NAMESPACE, job["metadata"]["name"]),
                body={"metadata": {"annotations": {SENT: repr(time.time())}}},
                content_type="application/merge-patch+json",
            )
            await asyncio.sleep(1 / REACTIONS_A_SECOND)
        await asyncio.sleep(3)


if __name__ == "__main__":
    main(WatchComparison)
