"""Pods that kube-scheduler binds, and pods that the operator binds itself (``bindPods``), in turns.

    python -m tests.performance.scale.binding --nodes 300 --jobs 1500 -o binding.json

In each round all jobs are submitted to an operator of their own, and are removed after it. The order is off, on, on, off, off, on, so
that a machine or an etcd that becomes slower meets both alike.
"""

from __future__ import annotations

from typing import Any

from tests.performance.scale.run import JOBS_ONLY, SYSTEM, Run, main
from tests.performance.scale.submission import submission
from tests.performance.scale.yardstick import bound_by_client
from tests.support.operator.operator_process import OperatorProcess

ORDER = ("off", "on", "on", "off", "off", "on")


class BindingComparison(Run):
    """One run of all rounds."""

    async def measure(self) -> dict[str, Any]:
        """Return the figures of each round, by the value of ``bindPods``."""
        await self.make_nodes()
        bare = await bound_by_client(self)
        rounds: dict[str, list[dict[str, float]]] = {"off": [], "on": []}
        for binds in ORDER:
            self.say(f"bindPods is {binds}")
            config = {**JOBS_ONLY, "bindPods": binds == "on"}
            folder = self.folder / f"{binds}-{len(self.workers)}"
            self.operator = OperatorProcess(folder, self.cluster.kubeconfig, SYSTEM, config)
            with self.operator:
                await self.until_it_leads()
                submitted = await submission(self, bare)
                reported = await self.phase(self.until_settled)
            await self.remove_jobs()
            rounds[binds].append(_figures(submitted, reported))
        return {
            "nodes": self.nodes,
            "gpus": self.gpus,
            "jobs": self.jobs,
            "order": ORDER,
            "rounds": rounds,
        }


def _figures(submitted: dict[str, Any], reported: dict[str, Any]) -> dict[str, float]:
    """Return the figures of a round from those of its parts."""
    writes = [sum(part["api_writes"].values()) for part in (submitted, reported)]
    return {
        "pods_bound_a_second": submitted["pods_bound_a_second"],
        "of_the_bare_client_percent": submitted["of_the_bare_client_percent"],
        "all_bound_after_seconds": submitted["all_bound_after_seconds"],
        "all_run_after_seconds": submitted["seconds"],
        "writes_until_all_run": writes[0],
        "writes_afterwards": writes[1],
        "apiserver_cpu_seconds": submitted["cpu_percent_of"]["kube-apiserver"] * submitted["seconds"] / 100,
        "scheduler_cpu_seconds": submitted["cpu_percent_of"]["kube-scheduler"] * submitted["seconds"] / 100,
    }


if __name__ == "__main__":
    main(BindingComparison)
