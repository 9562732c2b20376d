"""The operator's reads and writes around a preemption and at its own end, on a real API server.

Before a preemption the operator reads the victim again; it writes statuses in order, and completes its writes before it ends. A
proxy between the operator and the API server holds back what a test chooses.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.control_plane import LoopbackControlPlane
from tests.support.api_faults.fault import Answer, Fault, Request
from tests.support.api_faults.fault_proxy import FaultProxy, serving
from tests.support.api_faults.journal import Journal
from tests.support.api_faults.namespace_view import NamespaceView
from tests.support.api_faults.upstream import upstream
from tests.support.operator.fixtures import SYSTEM_NAMESPACE
from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until

KOPFS_DISCOVERY = "/apis/admissionregistration.k8s.io/v1"
"""A request of kopf alone, at its start."""

SHORT_LEASE: dict[str, Any] = {
    **FAST,
    "lease": {**FAST["lease"], "durationSeconds": 4, "renewDeadlineSeconds": 3},
}


class HeldBack(Fault):
    """Keeps news of pods, the writing of one job's status, or kopf's repeated discovery from arriving."""

    def __init__(self) -> None:
        self.news_of_pods = asyncio.Event()
        self.news_of_pods.set()
        self.status_of = ""
        self.from_attempt = 0
        self.status_may_go = asyncio.Event()
        self.discovery_may_go = asyncio.Event()
        self.discovery_may_go.set()
        self.holds_discovery = False

    async def before(self, request: Request) -> Request | Answer:
        """Hold a job's status or a discovery back."""
        if request.path == KOPFS_DISCOVERY and not self.discovery_may_go.is_set():
            self.holds_discovery = True
            await self.discovery_may_go.wait()
        if self._holds(request):
            self.fired = True
            await self.status_may_go.wait()
        return request

    def _holds(self, request: Request) -> bool:
        if not self.status_of or not request.writes or not request.path.endswith(f"/{self.status_of}/status"):
            return False
        return bool(json.loads(request.body)["status"].get("attempt", 0) >= self.from_attempt)

    async def events(self, request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Hold the lines of the watch on pods back."""
        async for line in lines:
            if request.collection == "pods":
                await self.news_of_pods.wait()
            yield line


@pytest.fixture
async def held_back(
    request: pytest.FixtureRequest,
    control_plane: LoopbackControlPlane,
    operator_kubeconfig: Path,
    cluster: PlayedCluster,
    tmp_path: Path,
) -> AsyncIterator[tuple[HeldBack, OperatorProcess]]:
    """An operator of the test's own behind the proxy, not started yet; its configuration may be the test's own, too."""
    fault = HeldBack()
    async with upstream(operator_kubeconfig) as up:
        proxy = FaultProxy(up, NamespaceView(cluster.namespace), fault, Journal())
        async with serving(proxy, tmp_path) as kubeconfig:
            config = getattr(request, "param", FAST)
            process = OperatorProcess(tmp_path / "operator", kubeconfig, SYSTEM_NAMESPACE, config)
            try:
                yield fault, process
            finally:
                fault.news_of_pods.set()
                fault.status_may_go.set()
                fault.discovery_may_go.set()
                await asyncio.to_thread(process.stop)
                print(process.log)


async def test_a_job_that_has_just_ended_is_not_preempted_and_victims_are_written_first(
    held_back: tuple[HeldBack, OperatorProcess], cluster: PlayedCluster
) -> None:
    fault, operator = held_back
    operator.start()
    await cluster.add_node("n1")
    urgent = await cluster.add_priority_class("urgent", 1000)
    await cluster.submit("long")
    (long,) = await cluster.run_all("long", 1)
    await cluster.until_condition("long", "Running")

    # Its worker ends, and the operator gets no event.
    fault.news_of_pods.clear()
    await cluster.finish(long)
    await cluster.submit("short", priorityClassName=urgent)
    (short,) = await cluster.until_pods("short", 1)
    assert "write outdated" in operator.log, "it had planned to preempt it"
    status = (await cluster.job("long"))["status"]
    assert (await cluster.condition("long", "Complete"))["status"] == "True"
    assert (status["attempt"], status["preemptions"]) == (1, 0)
    assert "Preempted" not in await cluster.events("long")
    assert "Preempting" not in await cluster.events("short")
    fault.news_of_pods.set()

    # The next job should get the GPU of a job whose end cannot be written.
    await cluster.run(short)
    await cluster.until_condition("short", "Running")
    await cluster.submit("next")
    await cluster.until_waiting("next", "GPUsBusy")
    fault.status_of = "short"
    await cluster.finish(short)

    async def held() -> bool:
        return fault.fired

    await until("the status is on its way", held)
    await cluster.add_node("n2")
    await cluster.submit("elsewhere")
    await cluster.until_pods("elsewhere", 1)  # it waits for no other job
    assert await cluster.pods("next") == []
    assert not (await cluster.job("next"))["status"].get("placement")
    assert (await cluster.condition("short", "Placed"))["status"] == "True"
    fault.status_may_go.set()
    await cluster.until_pods("next", 1)
    assert (await cluster.condition("short", "Complete"))["status"] == "True"


@pytest.mark.parametrize("held_back", [SHORT_LEASE], indirect=True, ids=["a lease of 4 s"])
async def test_an_operator_that_is_told_to_end_completes_its_write_and_its_events(
    held_back: tuple[HeldBack, OperatorProcess], cluster: PlayedCluster
) -> None:
    fault, operator = held_back
    # kopf waits for an answer until it is given up, 5 s after it was told to end: longer than the lease lasts.
    fault.discovery_may_go.clear()
    await cluster.add_node("n1")
    await cluster.submit("job")
    operator.start()
    (pod,) = await cluster.run_all("job", 1)
    await cluster.until_condition("job", "Running")
    fault.status_of, fault.from_attempt = "job", 2
    await cluster.take_away(pod)

    async def held() -> bool:
        return fault.fired

    await until("the status is on its way", held)
    process = operator.process
    assert process is not None
    process.terminate()

    async def ending() -> bool:
        return '"ending"' in operator.log

    await until("it is told to end", ending)
    fault.status_may_go.set()

    async def ended() -> bool:
        return process.poll() is not None

    await until("it has ended", ended)
    assert process.returncode == 0
    assert fault.holds_discovery
    assert (await cluster.job("job"))["status"]["attempt"] == 2
    await cluster.until_event("job", "Disrupted")
