"""Fifty gangs, no two of which fit together, on nodes simulated by kwok, with the real kube-scheduler: each
gets all of its GPUs or none.

All changes of their jobs and pods are watched; see :mod:`tests.support.operator.rival_history` for what is checked at every moment.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from laneway.api import names
from laneway.operator.state.resources import NODES
from laneway.operator.watch.apiserver import ApiError, Raw

from hack.cluster.control_plane import LoopbackControlPlane
from hack.cluster.kwok import PlayedNodes
from tests.support.operator.fixtures import SYSTEM_NAMESPACE
from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.rival_history import History
from tests.support.operator.waiting import until
from tests.support.operator.watching import beside, watched

RIVALS = 50
WORKERS = 4
NODE_COUNT = 3
GPUS_PER_NODE = 2
"""A gang needs four of the six GPUs: two gangs do not fit, but half of each does. A gang still fits on two nodes."""

START_ELSEWHERE = {3, 20}
"""The last worker of these gangs cannot start where it is put first."""

GANG_TIMEOUT_SECONDS = 20


@pytest.fixture(scope="module")
def operator(
    operator_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """An operator with a gang timeout for slow machines, which avoids a node for 60 s after a gang could not start there."""
    config: dict[str, Any] = copy.deepcopy(FAST)
    config["timeouts"] |= {"gangTimeoutSeconds": GANG_TIMEOUT_SECONDS, "avoidNodeSeconds": 60}
    folder = tmp_path_factory.mktemp("rivals")
    with OperatorProcess(folder, operator_kubeconfig, SYSTEM_NAMESPACE, config) as process:
        yield process
    print(process.log[-20_000:])


@pytest.fixture(scope="module")
def played_nodes(control_plane: LoopbackControlPlane) -> Iterator[PlayedNodes]:
    """kube-scheduler and kwok beside the session's control plane, while the tests of this module run."""
    with PlayedNodes(control_plane, Path(__file__).parent / "stages.yaml") as played:
        yield played


@pytest.mark.timeout(900)  # on a new machine kwok is built first
async def test_fifty_rival_gangs_run_one_after_another_and_never_hold_half(
    operator: OperatorProcess, played_nodes: PlayedNodes, cluster: PlayedCluster
) -> None:
    for number in range(NODE_COUNT):
        await _add_node(cluster, f"n{number}")
    history, changed = History(WORKERS), asyncio.Event()
    async with watched(cluster.api, cluster.namespace, history, changed):
        await asyncio.gather(*(_submit(cluster, at) for at in range(RIVALS)))
        async with _ended_when_whole(cluster, history, changed):

            async def all_ended() -> bool:
                played_nodes.pids()  # says so if one of them has ended
                return history.all_succeeded(RIVALS)

            await until("all rivals have run", all_ended, seconds=600)
    found = history.check()
    print(f"{found.moments} moments; taken back: {dict(found.partial)}")
    late = {_name(at) for at in START_ELSEWHERE}
    assert set(found.whole) == {_name(at) for at in range(RIVALS)}
    assert late <= set(found.partial), "taken back"
    for name in late:
        status = history.now.jobs[name]["status"]
        assert (status["attempt"] > 1, status["restarts"]) == (True, 0), "tried again, and nobody's failure"
        assert _kept_away(history, name) & _first_nodes(history, name), "from where it could not start"


def _name(at: int) -> str:
    return f"rival-{at}"


async def _add_node(cluster: PlayedCluster, name: str) -> None:
    node = await cluster.add_node(name, gpus=GPUS_PER_NODE)
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "110", names.GPU_PERCENT: str(100 * GPUS_PER_NODE)}
    await _patch(
        cluster, NODES.path(name=node), {"metadata": {"annotations": {"kwok.x-k8s.io/node": "fake"}}}
    )
    status = {"status": {"capacity": capacity, "allocatable": capacity}}
    await _patch(cluster, NODES.path(name=node, subresource="status"), status)


async def _submit(cluster: PlayedCluster, at: int) -> None:
    played = "starts-elsewhere" if at in START_ELSEWHERE else "starts"
    container = {"name": "trainer", "image": "example.invalid/trainer"}
    template = {"metadata": {"labels": {"played": played}}, "spec": {"containers": [container]}}
    never = {"mode": "Never"}
    await cluster.submit(_name(at), workers=WORKERS, template=template, preemption=never)


async def _patch(cluster: PlayedCluster, path: str, body: Raw) -> None:
    await cluster.api.request("PATCH", path, body=body, content_type="application/merge-patch+json")


def _first_nodes(history: History, name: str) -> set[str]:
    """Return where the worker was put in the first attempt that cannot start there."""
    statuses = (moment.jobs[name].get("status") or {} for moment in history.moments() if name in moment.jobs)
    first = (status for status in statuses if status.get("attempt") == 1)
    return {
        each["node"]
        for status in first
        for each in status.get("placement") or ()
        if each["worker"] == WORKERS - 1
    }


def _kept_away(history: History, name: str) -> set[str]:
    """Return the nodes that its status has said it keeps away from."""
    statuses = (moment.jobs[name].get("status") or {} for moment in history.moments() if name in moment.jobs)
    return {each["node"] for status in statuses for each in status.get("avoid") or ()}


@asynccontextmanager
async def _ended_when_whole(
    cluster: PlayedCluster, history: History, changed: asyncio.Event
) -> AsyncIterator[None]:
    """While the block runs, end the training of every gang that runs as a whole; one that has only a part
    waits forever."""

    async def end() -> None:
        ended: set[str] = set()
        while True:
            await changed.wait()
            changed.clear()
            for gang in history.whole_now():
                for pod in gang:
                    if pod["metadata"]["uid"] not in ended:
                        ended.add(pod["metadata"]["uid"])
                        await _finish(cluster, pod)

    async with beside(end):
        yield


async def _finish(cluster: PlayedCluster, pod: Raw) -> None:
    try:
        await cluster.finish(pod)
    except ApiError as error:
        if error.status not in (404, 409):  # it was taken away meanwhile
            raise
