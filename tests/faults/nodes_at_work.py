"""Simulates kube-scheduler, kubelets and agents: pods are bound, run, refused, and removed when they are
deleted. They see every version of every pod, undisturbed, and record what they ran, which decides whether
"nothing runs twice" holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from laneway.api import names
from laneway.operator.state.resources import PODS
from laneway.operator.watch.apiserver import Raw

from tests.faults.agent_at_work import AgentAtWork
from tests.faults.history import History
from tests.faults.patience import patiently
from tests.support.operator.played_cluster import PlayedCluster

_GONE = (404, 409, 422)
"""The pod is gone, or has changed."""

_HEARTBEAT_SECONDS = 10.0
"""A node that is silent for long is lost for kube-controller-manager (:data:`tests.support.control_planes.NODE_GRACE_SECONDS`)."""

_LINGERS_SECONDS = 0.05
"""A worker that is terminated saves its checkpoint first."""


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """One worker that was started."""

    job: str
    attempt: int
    rank: int
    uid: str

    @property
    def without_uid(self) -> tuple[str, int, int]:
        """Job, attempt and rank."""
        return self.job, self.attempt, self.rank


class NodesAtWork:
    """kube-scheduler, all kubelets and all agents of one cell."""

    def __init__(
        self,
        cluster: PlayedCluster,
        history: History,
        nodes: tuple[str, ...],
        refusals: frozenset[tuple[str, int, int]],
        clients: Mapping[str, int],
    ) -> None:
        """Run every pod except those of the (job, attempt, rank) in ``refusals``, which a kubelet refuses;
        workers whose image is in ``clients`` have a client, and this much persistent memory in bytes."""
        self._cluster = cluster
        self.names = nodes
        self._agents = (
            {node: AgentAtWork(cluster, history, node, clients) for node in nodes} if clients else {}
        )
        self._history = history
        self._refusals = refusals
        self._begun: set[tuple[str, bool]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.runs: list[Run] = []

    def kill_agent(self, node: str) -> None:
        """kill -9 of a node's agent."""
        self._agents[node].kill()

    def start_agent(self, node: str) -> None:
        """Start it again."""
        self._agents[node].start()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Work while the context lasts."""
        queue = self._history.subscribe()
        self._tasks |= {asyncio.create_task(self._follow(queue)), asyncio.create_task(self._beat())}
        self._tasks |= {asyncio.create_task(agent.work()) for agent in self._agents.values()}
        for task in self._tasks:
            task.add_done_callback(_report)
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _follow(self, queue: asyncio.Queue[Any]) -> None:
        while True:
            change = await queue.get()
            for agent in self._agents.values():
                agent.wake()
            if change.kind != PODS.kind or change.deleted:
                continue
            uid, deleting = change.object["metadata"]["uid"], "deletionTimestamp" in change.object["metadata"]
            if (uid, deleting) in self._begun:
                continue
            self._begun.add((uid, deleting))
            work = self._let_go(change.object) if deleting else self._start(change.object)
            task = asyncio.create_task(work)
            task.add_done_callback(_report)
            self._tasks.add(task)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            for node in self.names:
                await patiently(partial(self._cluster.set_ready, node, True), _GONE)

    async def _start(self, pod: Raw) -> None:
        labels = pod["metadata"]["labels"]
        run = Run(
            labels[names.JOB_LABEL],
            int(labels[names.ATTEMPT_LABEL]),
            int(labels[names.RANK_LABEL]),
            pod["metadata"]["uid"],
        )
        if run.without_uid in self._refusals:
            await patiently(lambda: self._cluster.refuse(pod, "UnexpectedAdmissionError", "played"), _GONE)
            return
        await patiently(lambda: self._cluster.bind(pod), _GONE)  # bound already, where an answer was lost
        if await patiently(lambda: self._cluster.start(pod), _GONE) is not None:
            self.runs.append(run)

    async def _let_go(self, pod: Raw) -> None:
        await asyncio.sleep(_LINGERS_SECONDS)
        await patiently(lambda: self._cluster.take_away(pod), _GONE)


def _report(task: asyncio.Task[None]) -> None:
    """Log at once the error with which the test will fail in the end."""
    if not task.cancelled() and (error := task.exception()) is not None:
        print(f"a played node failed: {error!r}")
