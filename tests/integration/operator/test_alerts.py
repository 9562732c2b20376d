"""A real Prometheus beside a real operator: its alerts fire when its API server, a node's device plugin or the operator itself is gone,
when its policy fails or is slow, and when jobs fail, wait, diverge or do not start."""

from __future__ import annotations

import copy
import json
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from laneway.api.names import GPU_PERCENT
from laneway.operator.state.resources import NODES

from hack.cluster.probes import wait_until
from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until
from tests.support.prometheus_process import Prometheus, prometheus

OPERATOR_MODULE = "tests.integration.operator.faulty_policy"
OPERATOR_CONFIG: dict[str, Any] = copy.deepcopy(FAST)
OPERATOR_CONFIG["scheduling"]["elastic"] = {"policy": "pollux"}
LONG_SECONDS = 5


@pytest.fixture(scope="module")
def server(operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus beside the module's operator, for which 5 s are long for a job and 1 s is for a cycle."""
    wait_until(lambda: operator.port is not None, "the operator serves", 60)
    targets = {"operator": f"127.0.0.1:{operator.port}/metrics"}
    folder = tmp_path_factory.mktemp("prometheus")
    with prometheus(folder, targets, at_once=True, waitingSeconds=LONG_SECONDS, cycleSeconds=1) as running:
        yield running


def kubeconfig(folder: Path, port: int) -> Path:
    """A way to an API server on a port where nobody listens."""
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(content))
    return path


async def test_an_operator_without_an_api_server_and_one_that_is_killed(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        unanswered = taken.getsockname()[1]
        with OperatorProcess(tmp_path / "operator", kubeconfig(tmp_path, unanswered), "default") as operator:
            targets = {"operator": await operator.metrics_page()}
            with prometheus(tmp_path, targets, at_once=True) as server:

                async def reported() -> bool:
                    return {"LanewayNoLeader", "LanewayAPIErrors"} <= server.firing().keys()

                async def gone() -> bool:
                    return "LanewayOperatorDown" in server.firing()

                await until("no leader and failing requests are reported", reported)
                operator.kill()
                await until("its end is reported", gone)


async def test_a_node_whose_device_plugin_is_gone_and_one_that_is_removed(
    server: Prometheus, cluster: PlayedCluster
) -> None:
    async def offer(node: str, percent: int) -> None:
        offered = {"cpu": "8", "memory": "8Gi", "pods": "110", GPU_PERCENT: str(percent)}
        path = NODES.path(name=node, subresource="status")
        body = {"status": {"capacity": offered, "allocatable": offered}}
        await cluster.api.request("PATCH", path, body=body, content_type="application/merge-patch+json")

    faulty, removed = [await cluster.add_node(name) for name in ("n1", "n2")]
    for node in (faulty, removed):
        await offer(node, 100)

    async def in_order() -> bool:
        shown = server.samples("laneway_node_shares_missing == 0")
        return {sample["metric"]["node"] for sample in shown} >= {faulty, removed}

    async def fires() -> bool:
        return server.fires("LanewayDevicePluginDown", node=faulty)

    async def gone() -> bool:
        return not server.samples(f'laneway_node_shares_missing{{node="{removed}"}}')

    await until("both nodes are seen", in_order)
    await offer(faulty, 0)
    await until("the alert fires", fires)
    await cluster.remove_node(removed)
    await until("the removed node has no series", gone)
    alerts = f'alertname=~"LanewayNodeAgentDown|LanewayDevicePluginDown", node=~"{faulty}|{removed}"'
    fired = f"last_over_time(ALERTS{{{alerts}}}[1h])"
    assert {sample["metric"]["node"] for sample in server.samples(fired)} == {faulty}
    await offer(faulty, 100)
    await until("the alert ends", lambda: _not(fires))


async def test_a_namespace_in_which_most_jobs_fail(server: Prometheus, cluster: PlayedCluster) -> None:
    exit_codes = (0, 0, 1, 1, 1)
    await cluster.add_node("n1", gpus=len(exit_codes))
    for number in range(len(exit_codes)):
        await cluster.submit(f"j{number}", backoffLimit=0)
    workers = [(await cluster.run_all(f"j{number}", 1))[0] for number in range(len(exit_codes))]
    await _until_counted(server, "laneway_job_completion_duration_seconds_count", cluster.namespace, 0)
    assert not server.fires("LanewayJobsFail")
    for worker, exit_code in zip(workers, exit_codes, strict=True):
        await cluster.finish(worker, exit_code)
    await _until_fires(server, "LanewayJobsFail", namespace=cluster.namespace)


async def test_gangs_of_which_a_worker_is_refused(server: Prometheus, cluster: PlayedCluster) -> None:
    rollbacks = 6
    await cluster.add_node("n1", gpus=2 * rollbacks)
    for number in range(rollbacks):
        await cluster.submit(f"gang-{number}", workers=2)
    await _until_counted(server, "laneway_gang_rollbacks_total", cluster.namespace, 0)
    assert not server.fires("LanewayGangRollbacks")
    for number in range(rollbacks):
        _, refused = await cluster.until_pods(f"gang-{number}", 2, attempt=1)
        await cluster.refuse(refused, "UnexpectedAdmissionError", "no such device")
    await _until_fires(server, "LanewayGangRollbacks")


async def test_a_job_whose_loss_is_not_a_number(server: Prometheus, cluster: PlayedCluster) -> None:
    node = await cluster.add_node("n1")
    await cluster.submit("diverges")
    (worker,) = await cluster.run_all("diverges", 1)
    await cluster.add_session(worker, 0, iterations=1, report={"step": 1, "loss": "0.5"})
    await _until_counted(server, "laneway_job_loss", cluster.namespace, 0.5)
    assert not server.fires("LanewayJobLossNotANumber")
    await cluster.set_sessions(node, [worker], iterations=2, report={"step": 2, "loss": "nan"})
    await _until_fires(
        server, "LanewayJobLossNotANumber", namespace=cluster.namespace, training_job="diverges"
    )


async def test_a_job_that_waits_long_and_one_that_is_then_suspended(
    server: Prometheus, cluster: PlayedCluster
) -> None:
    for name in ("waits", "rests"):
        await cluster.submit(name)
    long = {"alert": "LanewayJobWaitsLong", "namespace": cluster.namespace}
    for name in ("waits", "rests"):
        await _until_fires(server, **long, training_job=name)
        fired = f'ALERTS{{alertname="LanewayJobWaitsLong", alertstate="firing", training_job="{name}"}}'
        waited = f"laneway_job_waiting_seconds and on (namespace, training_job) {fired}"
        least = partial(_value, server, f"min_over_time(({waited})[10m:1s])")
        assert await until("Prometheus has stored the alert", least) >= LONG_SECONDS
    await cluster.change("rests", {"suspend": True})

    async def ends() -> bool:
        return not server.fires(**long, training_job="rests")

    await until("its alert ends", ends)
    # A scrape that takes longer than a second, as on a busy machine, interrupts the alerts.
    await _until_fires(server, **long, training_job="waits")
    resumed_at = time.time()
    await cluster.change("rests", {"suspend": False})

    async def waits_again() -> bool:
        found = server.samples('laneway_job_waiting_seconds{training_job="rests"}')
        return bool(found) and float(found[0]["value"][1]) <= time.time() - resumed_at

    await until("it waits again, and has done so since it was resumed", waits_again)


async def test_a_policy_that_takes_long_and_one_that_fails(
    server: Prometheus, cluster: PlayedCluster
) -> None:
    assert not server.fires("LanewayPolicyFailures")
    await cluster.add_node("n1")
    numbers = count()

    async def slow() -> bool:
        await cluster.submit(f"slows-{next(numbers)}", minWorkers=1, maxWorkers=2)
        return server.fires("LanewayCycleSlow")

    await until("LanewayCycleSlow fires", slow, poll_seconds=1)
    assert not server.fires("LanewayPolicyFailures")
    await cluster.submit("breaks", minWorkers=1, maxWorkers=2)
    await _until_fires(server, "LanewayPolicyFailures", stage="elastic")


async def _until_counted(server: Prometheus, metric: str, namespace: str, value: float) -> None:
    """Wait until Prometheus has a sum of a namespace's series: without their start, it sees no increase."""

    async def counted() -> bool:
        found = server.samples(f'sum({metric}{{namespace="{namespace}"}})')
        return [float(sample["value"][1]) for sample in found] == [value]

    await until(f"{metric} is {value}", counted)


async def _value(server: Prometheus, expression: str) -> float | None:
    """Return the value of the only series of an expression; None while there is none."""
    found = server.samples(expression)
    assert len(found) < 2, found
    return float(found[0]["value"][1]) if found else None


async def _until_fires(server: Prometheus, alert: str, **labels: str) -> None:
    async def fires() -> bool:
        return server.fires(alert, **labels)

    await until(f"{alert} fires", fires)


async def _not(look: Callable[[], Awaitable[bool]]) -> bool:
    return not await look()
