"""The nodes' agents, played: each renews its Lease, and reports a session for each worker that runs on its GPUs.

Intervals, and what is worth a write, are the product's: :mod:`laneway.api.node_lease`, :mod:`laneway.node_agent.report.changes`.
One process plays all agents. A session that ends is gone at once, where an agent lists it for another minute.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count

from laneway.api import names
from laneway.api.gpu_node import GPUNodeStatus
from laneway.api.node_config import NodeConfig
from laneway.api.node_lease import RENEW_SECONDS
from laneway.api.rfc3339 import format_time
from laneway.node_agent.report.changes import due
from laneway.operator.state.resources import PODS
from laneway.operator.watch.apiserver import Raw

from tests.performance.scale import objects
from tests.performance.scale.bound_pods import percent_of
from tests.performance.scale.client import PARALLEL, for_each, watching
from tests.performance.scale.leases import AgentLeases
from tests.performance.scale.run import NAMESPACE, Run

_INTERVAL_SECONDS = float(NodeConfig().status_interval_seconds)
_LOOK_SECONDS = 1.0
"""Between two writes of a node, at least, and between two looks at all nodes."""

_CHECKPOINT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Worker:
    """A pod whose container trains."""

    uid: str
    name: str
    node: str
    job: str
    rank: int
    attempt: int
    gpus: tuple[str, ...]
    share_percent: int
    began_seconds: float
    """Since 1970."""


def worker_of(pod: Raw, now_seconds: float) -> Worker | None:
    """Return the worker that a pod is; None where it does not run.

    A new pod that is not bound has the phase of its namesake on occasion: kwok writes a status by the pod's name alone.
    """
    if pod.get("status", {}).get("phase") != "Running" or "nodeName" not in pod["spec"]:
        return None
    metadata, labels = pod["metadata"], pod["metadata"]["labels"]
    gpus = tuple(metadata["annotations"][names.GPUS_ANNOTATION].split(","))
    return Worker(
        metadata["uid"],
        metadata["name"],
        pod["spec"]["nodeName"],
        labels[names.JOB_LABEL],
        int(labels[names.RANK_LABEL]),
        int(labels[names.ATTEMPT_LABEL]),
        gpus,
        percent_of(pod) // len(gpus),
        now_seconds,
    )


def a_worker_session(gpu: Raw, worker: Worker, now_seconds: float) -> Raw:
    """Return a worker's session on a GPU. Each job has a time of its own for an iteration, and saves a checkpoint now and then."""
    iteration_milliseconds = 50 + zlib.crc32(worker.job.encode()) % 450
    ran_seconds = now_seconds - worker.began_seconds
    saved_seconds = worker.began_seconds + ran_seconds // _CHECKPOINT_SECONDS * _CHECKPOINT_SECONDS
    iterations = int(1e3 * ran_seconds / iteration_milliseconds)
    share = worker.share_percent / 100
    return objects.a_session(
        gpu,
        iterations,
        key=f"{zlib.crc32(worker.uid.encode()):016x}",
        namespace=NAMESPACE,
        pod=worker.name,
        podUID=worker.uid,
        job=worker.job,
        rank=worker.rank,
        attempt=worker.attempt,
        sharePercent=worker.share_percent,
        quotaBytes=int(share * gpu["allocatableBytes"]),
        persistentBytes=int(share * 20 * 2**30),
        ephemeralBytes=int(share * 30 * 2**30),
        heldBytes=int(share * 45 * 2**30),
        iterationMicroseconds=1000 * iteration_milliseconds,
        gpuMilliseconds=iteration_milliseconds * iterations,
        savedWork={
            "unsavedSince": format_time(saved_seconds),
            "checkpointed": saved_seconds > worker.began_seconds,
        },
    )


class _Reports:
    """What the agents have seen and said, node by node."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._on: defaultdict[str, dict[str, Worker]] = defaultdict(dict)
        self._changed: set[str] = set()
        self._gone: set[str] = set()
        self._written: dict[str, tuple[GPUNodeStatus, float]] = {}
        self._look_at: dict[str, float] = {}

    def take(self, kind: str, pod: Raw) -> None:
        """Take note of an event of a pod."""
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        worker = None if kind == "DELETED" or uid in self._gone else worker_of(pod, time.time())
        if kind == "DELETED":
            self._gone.add(uid)  # a list may still show it
        if worker is not None and uid not in self._on[node]:
            self._on[node][uid] = worker
            self._changed.add(node)
        elif worker is None and node and self._on[node].pop(uid, None) is not None:
            self._changed.add(node)

    async def write(self) -> None:
        """Write what is due, for ever."""
        while True:
            began = time.monotonic()
            nodes = self._changed | {node for node, moment in self._look_at.items() if moment <= began}
            self._changed = set()
            await for_each(partial(self._look, node) for node in sorted(nodes))
            await asyncio.sleep(max(0.0, began + _LOOK_SECONDS - time.monotonic()))

    async def _look(self, node: str) -> None:
        now = time.monotonic()
        word = self._word(node)
        status = GPUNodeStatus.model_validate({**word["status"], "observedAt": None})
        written, written_at = self._written.get(node, (None, 0.0))
        self._look_at[node] = now + _INTERVAL_SECONDS
        if due(written, status, now - written_at, _INTERVAL_SECONDS):
            await self._run.write_as_agent(word)
            self._written[node] = status, now

    def _word(self, node: str) -> Raw:
        word = objects.agents_word(objects.node_number(node))
        for condition in word["status"]["conditions"]:
            condition["lastTransitionTime"] = _READY_SINCE
        for gpu in word["status"]["gpus"]:
            gpu["sessions"] = [
                a_worker_session(gpu, worker, time.time())
                for worker in self._on[node].values()
                if gpu["uuid"] in worker.gpus
            ]
        return word


_READY_SINCE = format_time(time.time())


@asynccontextmanager
async def playing_agents(run: Run) -> AsyncIterator[None]:
    """Play the agents of all nodes while the block runs."""
    run.say(f"the agents of {run.nodes} nodes report their sessions, and renew their Leases")
    leases, reports = AgentLeases(run.api), _Reports(run)
    await for_each(partial(leases.create, number) for number in range(run.nodes))
    async with watching(run.api, PODS.path(NAMESPACE), reports.take):
        listed = await run.api.request("GET", PODS.path(NAMESPACE))
        for pod in listed["items"]:
            reports.take("ADDED", pod)
        del listed
        tasks = [
            asyncio.create_task(_renew(run.nodes, leases)),
            asyncio.create_task(reports.write()),
        ]
        try:
            yield
        finally:
            for task in tasks:
                if task.done():
                    task.result()
                task.cancel()
            await asyncio.wait(tasks)


async def _renew(nodes: int, leases: AgentLeases) -> None:
    """Renew each Lease at intervals, one after another, for ever."""
    began, numbers = time.monotonic(), count()

    async def work() -> None:
        for number in numbers:
            at = began + number * RENEW_SECONDS / nodes
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            await leases.renew(number % nodes)

    await asyncio.gather(*(work() for _ in range(PARALLEL)))
