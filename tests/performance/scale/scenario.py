"""Measures the operator with thousands of gang jobs on a thousand nodes: how fast pods are bound, its CPU and memory use.

    python -m tests.performance.scale.scenario --nodes 100 --jobs 500 -o scale.json

All parts run one after the other on one control plane (``cluster.py``):

1. A bare client fills all GPUs with the pods that the operator would create. The first time kube-scheduler binds them, the
   second time the client does. The pods are removed each time.
2. The operator starts, all jobs are submitted at once, and bound pods are counted.
3. The operator writes to each waiting job why it waits.
4. Nothing happens for a while.
5. The nodes' agents write their statuses as in a real cluster.
6. Jobs end and others are submitted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from laneway.api import names
from laneway.operator.state.resources import GPU_NODES, NODES, PODS, TRAINING_JOBS
from laneway.operator.watch.apiserver import APPLY_PATCH, ApiServer, Raw, connect

from tests.performance.scale import objects
from tests.performance.scale.bare_client import BareClient, create, create_and_bind
from tests.performance.scale.client import delete_if_there, for_each, watching
from tests.performance.scale.cluster import ScaleCluster
from tests.performance.scale.operator_figures import api_counts, decisions
from tests.performance.scale.process_figures import ProcessFigures, figures_of_process
from tests.support.operator.operator_process import OperatorProcess

NAMESPACE = "scale"
BARE = "bare"
SYSTEM = "laneway-system"
IDLE_SECONDS = 300.0
"""In this time the idle operator lists all objects once, and runs one full Python garbage collection."""

AGENTS_SECONDS = 60.0
CHURN_SECONDS = 30.0
JOBS_A_SECOND = 2.0
"""While jobs come and go: the number that end, and the number that come."""

AGENT_INTERVAL_SECONDS = 10.0
"""How often a node's agent writes by default."""

_STALLED_SECONDS = 60.0
"""When no pod has been bound for so long, it is over."""

_TOLD_WITHIN_SECONDS = 900.0
_LOOK_SECONDS = 10.0
_HARDLY_ANY_A_SECOND = 6.0
"""Writes: leases, the service of those that run, estimates that have moved."""

CONFIG: dict[str, Any] = {
    "metricsPort": 0,
    "logLevel": "debug",
    # The agents' statuses are written only once, except in one part of the run.
    "timeouts": {"silentNodeSeconds": 86_400},
    # No preemptions while the operator is idle: after four minutes, large running gangs would rank behind waiting jobs.
    "scheduling": {"preemption": {"policy": "lowest-first", "options": {"minRunSeconds": 86_400}}},
}


class BoundPods:
    """Counts workers as they are bound to nodes, and as they go."""

    def __init__(self) -> None:
        self.bound: dict[str, float] = {}
        """By uid: when it was seen."""

        self.started: set[str] = set()

    def take(self, kind: str, pod: Raw) -> None:
        """Take note of an event."""
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self.bound.pop(uid, None)
        elif pod["spec"].get("nodeName"):
            self.bound.setdefault(uid, time.monotonic())
            if pod.get("status", {}).get("phase") == "Running":
                self.started.add(uid)


class Run:
    """One run."""

    def __init__(self, api: ApiServer, cluster: ScaleCluster, nodes: int, jobs: int, folder: Path) -> None:
        self._api = api
        self._cluster = cluster
        self._nodes = nodes
        self._jobs = jobs
        self._gpus = nodes * objects.GPUS_PER_NODE
        self._began = time.monotonic()
        self._folder = folder
        self._operator = OperatorProcess(folder, cluster.kubeconfig, SYSTEM, CONFIG)
        self._made = 0
        self._workers: dict[str, int] = {}

    async def measure(self) -> dict[str, Any]:
        """Return all figures."""
        await self._make_nodes()
        by_scheduler = await self._by_scheduler()
        bare = await self._bare_client()
        found: dict[str, Any] = {
            "nodes": self._nodes,
            "gpus": self._gpus,
            "jobs": self._jobs,
            "bare_client": {"pods": bare.pods, "seconds": bare.seconds, "pods_a_second": bare.pods_a_second},
            "bound_by_scheduler_pods_a_second": by_scheduler,
        }
        with self._operator:
            await self._until_it_leads()
            found["from_submission_to_bound"] = await self._submission(bare)
            self._say("waiting until all jobs have been told where they stand")
            found["told"] = await self._phase(self._until_told)
            found["idle"] = await self._phase(lambda: asyncio.sleep(IDLE_SECONDS))
            found["idle_with_agents"] = await self._phase(lambda: self._agents_write(AGENTS_SECONDS))
            found["jobs_come_and_go"] = await self._phase(self._churn)
            figures = self._of_operator()
            found["operator_memory_mib"] = {
                "at_the_end": figures.memory_mib,
                "largest": figures.peak_memory_mib,
            }
        return found

    # ---- before

    async def _make_nodes(self) -> None:
        self._say(f"{self._nodes} nodes with {objects.GPUS_PER_NODE} GPUs each")
        for namespace in (NAMESPACE, BARE, SYSTEM):
            await self._api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})

        async def make(number: int) -> None:
            await self._api.request("POST", NODES.path(), body=objects.a_node(number))
            untainted = {"spec": {"taints": None}}
            await self._api.request(
                "PATCH",
                NODES.path(name=objects.node_name(number)),
                body=untainted,
                content_type="application/merge-patch+json",
            )
            await self._api.request("POST", GPU_NODES.path(), body=objects.a_gpu_node(number))
            await self._write_as_agent(number)

        await for_each(partial(make, number) for number in range(self._nodes))
        self._cluster.figures()  # says so if a part of it has ended

    async def _write_as_agent(self, number: int) -> None:
        await self._api.request(
            "PATCH",
            GPU_NODES.path(name=objects.node_name(number), subresource="status"),
            query={"fieldManager": names.NODE_FIELD_MANAGER, "force": "true"},
            body=objects.agents_word(number),
            content_type=APPLY_PATCH,
        )

    async def _bare_client(self) -> BareClient:
        self._say(f"a bare client creates and binds {self._gpus} pods")
        bare = await create_and_bind(self._api, BARE, self._gpus)
        self._say(f"  {bare.pods_a_second:.0f} pods a second")
        await self._remove_bare()
        return bare

    async def _by_scheduler(self) -> float:
        """Pods bound a second where the bare client leaves that to kube-scheduler."""
        self._say(f"a bare client creates {self._gpus} pods, kube-scheduler binds them")
        pods = BoundPods()
        async with watching(self._api, PODS.path(BARE), pods.take):
            wanted = await create(self._api, BARE, self._gpus)
            await self._until_bound(pods, lambda: len(pods.bound) >= wanted)
        rate = _pods_a_second(pods)
        self._say(f"  {rate:.0f} pods a second")
        await self._remove_bare()
        return rate

    async def _remove_bare(self) -> None:
        query = {"fieldSelector": "metadata.namespace=" + BARE}
        listed = await self._api.request("GET", PODS.path(BARE), query=query)
        at_once = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        found = [pod["metadata"]["name"] for pod in listed["items"]]
        del listed
        await for_each(partial(delete_if_there, self._api, PODS.path(BARE, name), at_once) for name in found)

    async def _until_it_leads(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            await asyncio.sleep(0.2)
            if self._operator.port is not None and "laneway_leader 1.0" in self._operator.get("/metrics"):
                await asyncio.sleep(3)  # it lists, and its watches begin
                return
        raise RuntimeError(f"the operator did not begin to lead: {self._operator.log[-2000:]}")

    # ---- the parts that are measured

    async def _submission(self, bare: BareClient) -> dict[str, Any]:
        self._say(f"submitting {self._jobs} jobs")
        pods = BoundPods()
        async with watching(self._api, PODS.path(NAMESPACE), pods.take):
            phase = asyncio.create_task(self._phase(lambda: self._submit_and_wait(pods)))
            found = await phase
        began = self._submitted_at
        times = sorted(pods.bound.values())
        if not times:
            raise RuntimeError(f"no pod was bound: {self._operator.log[-3000:]}")
        last = times[-1] - began
        rate = _pods_a_second(pods)
        after = [time for time in times if time > began + self._submitted_in]
        rate_after = len(after) / (after[-1] - began - self._submitted_in) if after else 0.0
        found |= {
            "submission_seconds": self._submitted_in,
            "bound_pods": len(times),
            "first_bound_after_seconds": times[0] - began,
            "all_bound_after_seconds": last,
            "pods_bound_a_second": rate,
            "of_the_bare_client_percent": 100 * rate / bare.pods_a_second,
            "after_submission": {
                "bound_pods": len(after),
                "pods_bound_a_second": rate_after,
                "of_the_bare_client_percent": 100 * rate_after / bare.pods_a_second,
            },
        }
        return found

    async def _submit_and_wait(self, pods: BoundPods) -> None:
        self._submitted_at = time.monotonic()
        sizes = list(objects.gang_sizes(self._jobs))
        await for_each(partial(self._submit, workers) for workers in sizes)
        self._submitted_in = time.monotonic() - self._submitted_at
        self._say(f"  submitted in {self._submitted_in:.0f} s; {len(pods.bound)} pods are bound")
        wanted = min(self._gpus, sum(sizes))
        await self._until_bound(pods, lambda: len(pods.started) >= wanted)

    async def _until_bound(self, pods: BoundPods, done: Callable[[], bool]) -> None:
        shown, seen, changed_at = time.monotonic(), 0, time.monotonic()
        while not done():
            await asyncio.sleep(0.2)
            if len(pods.bound) + len(pods.started) != seen:
                seen, changed_at = len(pods.bound) + len(pods.started), time.monotonic()
            if time.monotonic() - changed_at > _STALLED_SECONDS:
                self._say(f"  nothing has been bound for {_STALLED_SECONDS:.0f} s")
                return
            if time.monotonic() - shown > 10:
                shown = time.monotonic()
                self._say(f"  {len(pods.bound)} pods are bound, {len(pods.started)} run")

    async def _submit(self, workers: int) -> str:
        name = f"j{self._made:05d}"
        self._made += 1
        self._workers[name] = workers
        job = objects.a_job(name, NAMESPACE, workers)
        await self._api.request("POST", TRAINING_JOBS.path(NAMESPACE), body=job)
        return name

    async def _until_told(self) -> None:
        """Wait until the operator has hardly anything to write any more."""
        before = self._written()
        deadline = time.monotonic() + _TOLD_WITHIN_SECONDS
        while time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
            now = self._written()
            if now - before < _LOOK_SECONDS * _HARDLY_ANY_A_SECOND:
                return
            before = now
        raise RuntimeError(
            f"after {_TOLD_WITHIN_SECONDS:.0f} s the operator still writes about jobs that wait"
        )

    async def _agents_write(self, seconds: float) -> None:
        self._say(f"the agents of {self._nodes} nodes write every {AGENT_INTERVAL_SECONDS:.0f} s")
        end = time.monotonic() + seconds
        pause = AGENT_INTERVAL_SECONDS / self._nodes
        number = 0
        next_at = time.monotonic()
        while time.monotonic() < end:
            await self._write_as_agent(number % self._nodes)
            number += 1
            next_at += pause
            await asyncio.sleep(max(0.0, next_at - time.monotonic()))

    async def _churn(self) -> None:
        self._say(f"{JOBS_A_SECOND:.0f} jobs a second end, and as many come")
        listed = await self._api.request("GET", TRAINING_JOBS.path(NAMESPACE))
        placed = [
            job["metadata"]["name"] for job in listed["items"] if job.get("status", {}).get("placement")
        ]
        del listed
        end = time.monotonic() + CHURN_SECONDS
        while time.monotonic() < end and placed:
            name = placed.pop()
            body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
            await self._api.request("DELETE", TRAINING_JOBS.path(NAMESPACE, name), body=body)
            at_once = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
            for rank in range(self._workers[name]):  # as the garbage collector does
                await delete_if_there(self._api, PODS.path(NAMESPACE, f"{name}-{rank}"), at_once)
            await self._submit(self._workers[name])
            await asyncio.sleep(1 / JOBS_A_SECOND)

    # ---- figures

    async def _phase(self, part: Callable[[], Any]) -> dict[str, Any]:
        """Run a part of the scenario; return what it took."""
        # Serving the metrics of thousands of jobs costs CPU time, so they are not read while CPU time is measured.
        writes, requests = api_counts(self._operator)
        log_length, before = len(self._operator.log), self._of_operator()
        others = self._cluster.figures()
        began = time.monotonic()
        await part()
        took = time.monotonic() - began
        after, others_after = self._of_operator(), self._cluster.figures()
        written, requested = api_counts(self._operator)
        written.subtract(writes)
        requested.subtract(requests)
        return {
            "seconds": took,
            "decisions": asdict(decisions(self._operator.log[log_length:])),
            "operator_cpu_seconds": after.cpu_seconds - before.cpu_seconds,
            "operator_cpu_percent": 100 * (after.cpu_seconds - before.cpu_seconds) / took,
            "operator_memory_mib": after.memory_mib,
            "operator_peak_memory_mib": after.peak_memory_mib,
            "api_writes": {name: number for name, number in sorted(written.items()) if number},
            "api_requests": {name: number for name, number in sorted(requested.items()) if number},
            "written_mib_of_etcd": others_after["etcd"].written_mib - others["etcd"].written_mib,
            "cpu_percent_of": {
                name: 100 * (others_after[name].cpu_seconds - others[name].cpu_seconds) / took
                for name in sorted(others)
            },
        }

    def _written(self) -> int:
        writes, _ = api_counts(self._operator)
        return writes.total()

    def _of_operator(self) -> ProcessFigures:
        assert self._operator.process is not None
        return figures_of_process(self._operator.process.pid)

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:6.1f} s] {text}", flush=True)


def _pods_a_second(pods: BoundPods) -> float:
    times = sorted(pods.bound.values())
    return len(times) / (times[-1] - times[0])


async def _measured(run: type[Run], nodes: int, jobs: int) -> dict[str, Any]:
    with ScaleCluster() as cluster, tempfile.TemporaryDirectory(prefix="laneway-scale-") as folder:
        async with await connect(cluster.kubeconfig) as api:
            return await run(api, cluster, nodes, jobs, Path(folder)).measure()


def main(run: type[Run] = Run) -> None:
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


if __name__ == "__main__":
    main()
