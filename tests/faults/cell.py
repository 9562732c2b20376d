"""One cell: a namespace with nodes of its own, a scripted life in it, and an operator that is disturbed by one fault.

Cells share one API server and play at the same time. The outcome of each is compared with the invariants, with the record of writers, and with
the end of an undisturbed cell.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from laneway.operator.state.resources import GPU_NODES, LEASES, NODES, PODS, PRIORITY_CLASSES, TRAINING_JOBS
from laneway.operator.watch.apiserver import ApiServer

from tests.faults.gangs_life import GANGS
from tests.faults.history import History
from tests.faults.invariants import END_STATE, ONE_WRITER, Violation, violations
from tests.faults.life import Life, Stage
from tests.faults.nodes_at_work import NodesAtWork
from tests.faults.patience import patiently
from tests.faults.replica import Replica
from tests.support.api_faults.fault import Fault
from tests.support.api_faults.fault_proxy import FaultProxy, serving
from tests.support.api_faults.journal import Journal
from tests.support.api_faults.namespace_view import NamespaceView
from tests.support.api_faults.upstream import Upstream
from tests.support.operator.namespaces import add_namespace
from tests.support.operator.played_cluster import PLAYED_IN_LABEL, PlayedCluster

Raw = dict[str, Any]

OPERATOR_USER = "system:serviceaccount:laneway-system:laneway-operator"
LEASE = "laneway-operator"
_LOG_SHOWN = 20_000
"""Characters of the operators' logs that a failed test shows."""

CONFIG: Raw = {
    "sharing": "off",  # as the lives play it: what their nodes offer beyond 100 % is for paused jobs
    "metricsPort": 0,
    "logLevel": "debug",
    "scheduling": {
        "preemption": {"policy": "lowest-first", "options": {"minRunSeconds": 0}},
    },
    "cycle": {"debounceMilliseconds": 5, "resyncSeconds": 1, "relistSeconds": 30},
    "timeouts": {
        "gangTimeoutSeconds": 300,
        "avoidNodeSeconds": 0,
        "restartBackoffSeconds": 0,
        "refusalBackoffSeconds": 0,
        "unschedulableSeconds": 300,
        "silentNodeSeconds": 3600,
        "orphanSeconds": 1,
        "pauseSeconds": 600,
    },
    "lease": {"name": LEASE, "durationSeconds": 60, "renewDeadlineSeconds": 40, "retrySeconds": 1},
}
"""The operator's delays are short. The timeouts are long, so that no gang is given up because a fault slows it down."""


@dataclass(slots=True)
class Grounds:
    """What the cells of one test share."""

    api: ApiServer
    """As administrator, past all proxies."""

    as_operator: Upstream
    as_observer: Upstream
    folder: Path


@dataclass(slots=True)
class Cell:
    """A namespace in which one life is lived."""

    grounds: Grounds
    life: Life
    stage: Stage
    stack: AsyncExitStack
    journal: Journal = field(default_factory=Journal)
    replicas: list[Replica] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        """The namespace."""
        return self.stage.cluster.namespace

    @property
    def history(self) -> History:
        """All that has happened."""
        return self.stage.history

    async def add_replica(
        self, fault: Fault, config: Raw = CONFIG, *, clock_ahead_seconds: float = 0.0
    ) -> Replica:
        """Add a replica of the operator, not yet started, that reaches the API server through a fault of its own."""
        name = "abc"[len(self.replicas)]
        folder = self.grounds.folder / self.namespace / name
        folder.mkdir(parents=True)
        view = NamespaceView(self.namespace)
        proxy = FaultProxy(self.grounds.as_operator, view, fault, self.journal)
        kubeconfig = await self.stack.enter_async_context(serving(proxy, folder))
        replica = Replica(
            name, folder, kubeconfig, self.namespace, config, clock_ahead_seconds=clock_ahead_seconds
        )
        self.stack.callback(replica.kill)
        self.replicas.append(replica)
        return replica

    def kill_and_start(self, replica: Replica) -> None:
        """Kills a replica and restarts it at once without a leader; other tests wait for leases to expire."""
        replica.kill()
        # A request that is under way when the cell ends can have it started again after the end that the cell has for it.
        self.stack.callback(replica.kill)

        async def start() -> None:
            lease = LEASES.path(self.namespace, LEASE)
            await patiently(lambda: self.grounds.api.request("DELETE", lease), (404,))
            replica.start()

        self.accompany(start())

    def accompany(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done beside the scenario; it ends with the cell at the latest."""
        task = asyncio.ensure_future(work)

        async def end() -> None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        self.stack.push_async_callback(end)

    @property
    def log(self) -> str:
        """All that its replicas have logged."""
        return "\n".join(replica.log for replica in self.replicas)

    async def live(self) -> Raw:
        """Live through it; returns where it ended."""
        await self.life.play(self.stage)
        return await self.life.end_state(self.stage)

    def violations(self) -> list[Violation]:
        """Return what did not hold until now."""
        out_of_turn = [Violation(ONE_WRITER, message, 0) for message in self.journal.written_out_of_turn()]
        late = self.journal.late()
        return [*violations(self.history.changes, self.stage.nodes.runs, late), *out_of_turn]


@asynccontextmanager
async def cell(grounds: Grounds, life: Life = GANGS) -> AsyncIterator[Cell]:
    """A cell, its nodes at work, its operator yet to come."""
    namespace = f"f-{uuid.uuid4().hex[:8]}"
    cluster = PlayedCluster(grounds.api, namespace)
    await _make_namespace(grounds.api, namespace)
    history = History(grounds.as_observer, namespace)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_clean_up, grounds.api, namespace)
        classes, names = await life.prepare(cluster)
        nodes = NodesAtWork(cluster, history, names, life.refusals, life.clients)
        await stack.enter_async_context(history.followed())
        await stack.enter_async_context(nodes.at_work())
        live = Cell(grounds, life, Stage(cluster, history, nodes, classes), stack)
        try:
            yield live
        except AssertionError as error:
            error.add_note(f"{_standing(history)}\n{live.log[-_LOG_SHOWN:]}")
            raise


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out of a cell."""

    end: Raw | None
    fired: bool
    violations: list[Violation]
    log: str


async def outcome_of(live: Cell, fault: Fault, undisturbed: Raw | None) -> Outcome:
    """Plays the scenario in a cell with its operator, and checks the outcome."""
    end, problems = None, []
    try:
        end = await live.live()
    except AssertionError as error:
        problems.append(Violation(END_STATE, f"{error}; {_standing(live.history)}", live.history.version))
    if end is not None and undisturbed is not None and end != undisturbed:
        problems.append(Violation(END_STATE, difference(end, undisturbed), live.history.version))
    return Outcome(end, fault.fired, [*live.violations(), *problems], live.log)


def _standing(history: History) -> str:
    """Return what the jobs' statuses say."""
    sentences = []
    for job in history.jobs:
        status = job.get("status") or {}
        true = [each["type"] for each in status.get("conditions") or () if each["status"] == "True"]
        waiting = status.get("waiting") or {}
        sentences.append(
            f"{job['metadata']['name']}: attempt {status.get('attempt')}, {', '.join(true)}; "
            f"{waiting.get('reason')}: {waiting.get('message')}"
        )
    return " | ".join(sentences)


def difference(end: Raw, undisturbed: Raw) -> str:
    """Return a sentence that names the first part in which two ends differ."""
    parts = [
        f"{part}: {end[part]!r}, undisturbed {undisturbed[part]!r}"
        for part in undisturbed
        if end[part] != undisturbed[part]
    ]
    jobs = [
        f"{name}: {end['jobs'].get(name)}, undisturbed {undisturbed['jobs'].get(name)}"
        for name in sorted({*end["jobs"], *undisturbed["jobs"]})
        if end["jobs"].get(name) != undisturbed["jobs"].get(name)
    ]
    return "; ".join([*jobs, *(part for part in parts if not part.startswith("jobs"))])


async def _make_namespace(api: ApiServer, namespace: str) -> None:
    await add_namespace(api, namespace)
    # The operator keeps its lease in the cell, with the rights that it has in its own namespace.
    rules = [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["create", "get", "list", "update"],
        }
    ]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    await api.request("POST", f"{rbac}/roles", body={"metadata": {"name": "operator"}, "rules": rules})
    binding = {
        "metadata": {"name": "operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
        "subjects": [
            {
                "kind": "User",
                "name": OPERATOR_USER,
                "apiGroup": "rbac.authorization.k8s.io",
            }
        ],
    }
    await api.request("POST", f"{rbac}/rolebindings", body=binding)


async def _clean_up(api: ApiServer, namespace: str) -> None:
    """What the cell made is taken away; its empty namespace goes with the API server."""
    own = {"labelSelector": f"{PLAYED_IN_LABEL}={namespace}"}
    now = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    await patiently(lambda: api.request("DELETE", TRAINING_JOBS.path(namespace)))
    await patiently(lambda: api.request("DELETE", PODS.path(namespace), body=now))
    for resource in (GPU_NODES, NODES, PRIORITY_CLASSES):
        await patiently(partial(api.request, "DELETE", resource.path(), query=own))
