"""What all benchmarks of the operator on played nodes share: the nodes, the operator's process, and the figures of a part of a run."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from laneway.api import names
from laneway.operator.state.resources import GPU_NODES, NODES, PODS, TRAINING_JOBS
from laneway.operator.watch.apiserver import APPLY_PATCH, ApiError, ApiServer, Raw, connect

from tests.performance.scale import objects
from tests.performance.scale.client import delete_if_there, for_each
from tests.performance.scale.cluster import ScaleCluster
from tests.performance.scale.operator_figures import counts, decisions
from tests.performance.scale.process_figures import ProcessFigures, figures_of_process
from tests.support.operator.operator_process import OperatorProcess

NAMESPACE = "scale"
BARE = "bare"
ENDED = "ended"
SYSTEM = "laneway-system"

JOBS_ONLY: dict[str, Any] = {
    "metricsPort": 0,
    "logLevel": "debug",
    "timeouts": {"silentNodeSeconds": 86_400},
    "scheduling": {"preemption": {"policy": "lowest-first", "options": {"minRunSeconds": 86_400}}},
}
"""A configuration of the operator: no agent renews a Lease, and no job is preempted."""

_LEADS_WITHIN_SECONDS = 60.0
_ACCOUNTS_WITHIN_SECONDS = 60.0
_SETTLED_WITHIN_SECONDS = 900.0
_LOOK_SECONDS = 10.0
_HARDLY_ANY_A_SECOND = 6.0
"""Writes: leases, attained service, estimates that have moved."""


class Run(ABC):
    """One run of a benchmark; each benchmark has a class of its own.

    Attributes:
        api: the API server, as an administrator.
        nodes: number of nodes; gpus: of their GPUs; jobs: of jobs to submit.
        operator: started by the benchmark.
        workers: by the name of a job that was submitted: its number of workers.
    """

    controllers: ClassVar[bool] = False
    """Whether kube-controller-manager runs."""

    config: ClassVar[dict[str, Any]] = {"metricsPort": 0, "logLevel": "debug"}
    """The operator's."""

    def __init__(self, api: ApiServer, cluster: ScaleCluster, nodes: int, jobs: int, folder: Path) -> None:
        self.api = api
        self.cluster = cluster
        self.nodes = nodes
        self.jobs = jobs
        self.gpus = nodes * objects.GPUS_PER_NODE
        self.folder = folder
        self.operator = OperatorProcess(folder, cluster.kubeconfig, SYSTEM, self.config)
        self.workers: dict[str, int] = {}
        self._began = time.monotonic()

    @abstractmethod
    async def measure(self) -> dict[str, Any]:
        """Return all figures."""

    def a_job(self, name: str, workers: int) -> Raw:
        """Return a gang job to submit."""
        return objects.a_job(name, NAMESPACE, workers)

    async def submit(self, workers: int) -> str:
        """Submit a gang job; return its name."""
        name = f"j{len(self.workers):05d}"
        self.workers[name] = workers
        await self.api.request("POST", TRAINING_JOBS.path(NAMESPACE), body=self.a_job(name, workers))
        return name

    async def placed_jobs(self) -> list[Raw]:
        """Return the jobs that have GPUs."""
        listed = await self.api.request("GET", TRAINING_JOBS.path(NAMESPACE))
        return [job for job in listed["items"] if is_placed(job)]

    async def remove_jobs(self) -> None:
        """Remove all jobs and pods at once."""
        at_once = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        for resource in (TRAINING_JOBS, PODS):
            listed = await self.api.request("GET", resource.path(NAMESPACE))
            found = [each["metadata"]["name"] for each in listed["items"]]
            del listed
            await for_each(
                partial(delete_if_there, self.api, resource.path(NAMESPACE, name), at_once) for name in found
            )

    async def delete_job(self, name: str) -> None:
        """Delete a job; the garbage collector deletes its pods."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        await self.api.request("DELETE", TRAINING_JOBS.path(NAMESPACE, name), body=body)

    async def make_nodes(self) -> None:
        """Create the namespaces, the nodes and what their agents say first."""
        self.say(f"{self.nodes} nodes with {objects.GPUS_PER_NODE} GPUs each")
        for namespace in (NAMESPACE, BARE, ENDED, SYSTEM):
            await self.api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
        await for_each(partial(self._make_node, number) for number in range(self.nodes))
        if self.controllers:
            await self._until_pods_may_come()
        self.cluster.figures()  # says so if a part of it has ended

    async def _make_node(self, number: int) -> None:
        await self.api.request("POST", NODES.path(), body=objects.a_node(number))
        await self.api.request(
            "PATCH",
            NODES.path(name=objects.node_name(number)),
            body={"spec": {"taints": None}},
            content_type="application/merge-patch+json",
        )
        await self.api.request("POST", GPU_NODES.path(), body=objects.a_gpu_node(number))
        await self.write_as_agent(objects.agents_word(number))

    async def _until_pods_may_come(self) -> None:
        """Wait for the service accounts that kube-controller-manager makes; without one, each pod is refused."""
        deadline = time.monotonic() + _ACCOUNTS_WITHIN_SECONDS
        for namespace in (NAMESPACE, BARE):
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
            while True:
                try:
                    await self.api.request("GET", path)
                    break
                except ApiError as error:
                    if error.status != 404 or time.monotonic() > deadline:
                        raise
                    await asyncio.sleep(0.2)

    async def write_as_agent(self, word: Raw) -> None:
        """Apply what a node's agent says to the status of its GPUNode."""
        await self.api.request(
            "PATCH",
            GPU_NODES.path(name=word["metadata"]["name"], subresource="status"),
            query={"fieldManager": names.NODE_FIELD_MANAGER, "force": "true"},
            body=word,
            content_type=APPLY_PATCH,
        )

    async def until_it_leads(self) -> None:
        """Wait until the operator leads, and has listed everything."""
        deadline = time.monotonic() + _LEADS_WITHIN_SECONDS
        while time.monotonic() < deadline:
            await asyncio.sleep(0.2)
            if self.operator.port is not None and "laneway_leader 1.0" in self.operator.get("/metrics"):
                await asyncio.sleep(3)  # it lists, and its watches begin
                return
        raise RuntimeError(f"the operator did not begin to lead: {self.operator.log[-2000:]}")

    async def phase(self, part: Callable[[], Any]) -> dict[str, Any]:
        """Run a part of the scenario; return what it took."""
        # Serving the metrics of thousands of jobs costs CPU time, so they are not read while CPU time is measured.
        counted = counts(self.operator)
        log_length, before = len(self.operator.log), self.of_operator()
        others = self.cluster.figures()
        began = time.monotonic()
        await part()
        took = time.monotonic() - began
        after, others_after = self.of_operator(), self.cluster.figures()
        more = counts(self.operator).since(counted)
        cycles = asdict(decisions(self.operator.log[log_length:]))
        self.say("  cycles: " + ", ".join(f"{name} {value:.0f}" for name, value in cycles.items()))
        return {
            "seconds": took,
            "decisions": cycles,
            "preemptions": more.preemptions,
            "operator_cpu_seconds": after.cpu_seconds - before.cpu_seconds,
            "operator_cpu_percent": 100 * (after.cpu_seconds - before.cpu_seconds) / took,
            "operator_memory_mib": after.memory_mib,
            "operator_peak_memory_mib": after.peak_memory_mib,
            "api_writes": {name: number for name, number in sorted(more.writes.items()) if number},
            "api_requests": {name: number for name, number in sorted(more.requests.items()) if number},
            "written_mib_of_etcd": others_after["etcd"].written_mib - others["etcd"].written_mib,
            "cpu_percent_of": {
                name: 100 * (others_after[name].cpu_seconds - others[name].cpu_seconds) / took
                for name in sorted(others)
            },
        }

    async def until_settled(self) -> bool:
        """Wait until the operator has hardly anything to write any more; return whether it came to that."""
        before = self._written()
        deadline = time.monotonic() + _SETTLED_WITHIN_SECONDS
        while time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
            now = self._written()
            if now - before < _LOOK_SECONDS * _HARDLY_ANY_A_SECOND:
                return True
            before = now
        self.say(f"  after {_SETTLED_WITHIN_SECONDS:.0f} s the operator still writes")
        return False

    def _written(self) -> int:
        return counts(self.operator).writes.total()

    def of_operator(self) -> ProcessFigures:
        """Return what the operator's process has used so far."""
        assert self.operator.process is not None
        return figures_of_process(self.operator.process.pid)

    def say(self, text: str) -> None:
        """Print a line about the run."""
        print(f"[{time.monotonic() - self._began:6.1f} s] {text}", flush=True)


def is_placed(job: Raw) -> bool:
    """Return whether a job has GPUs."""
    conditions = job.get("status", {}).get("conditions", ())
    return any((each["type"], each["status"]) == ("Placed", "True") for each in conditions)


async def _measured(run: type[Run], nodes: int, jobs: int) -> dict[str, Any]:
    with (
        ScaleCluster(run.controllers) as cluster,
        tempfile.TemporaryDirectory(prefix="laneway-scale-") as folder,
    ):
        async with await connect(cluster.kubeconfig) as api:
            return await run(api, cluster, nodes, jobs, Path(folder)).measure()


def main(run: type[Run]) -> None:
    """Run a scenario, and write the figures as JSON."""
    parser = argparse.ArgumentParser(
        description=sys.modules[run.__module__].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    text = json.dumps(asyncio.run(_measured(run, arguments.nodes, arguments.jobs)), indent=1) + "\n"
    if arguments.output is None:
        print(text, end="")
    else:
        arguments.output.write_text(text, encoding="utf-8")
