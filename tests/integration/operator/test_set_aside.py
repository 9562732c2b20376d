"""An administrator takes nodes out of use: cordons, NoExecute taints, evictions; Kubernetes' own controllers do their part."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from laneway.operator.state.resources import NODES, PODS
from laneway.operator.watch.apiserver import ApiError, Raw

from tests.support.operator.fixtures import SYSTEM_NAMESPACE
from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until

TAINT = {"key": "maintenance", "value": "yes", "effect": "NoExecute"}
KEPT_OFF = "since the template does not tolerate the taint maintenance=yes:NoExecute"


@pytest.fixture(scope="module")
def operator(
    operator_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """An operator that avoids nodes for longer than any test: a gang returns only to a node that it does not avoid."""
    config: dict[str, Any] = copy.deepcopy(FAST)
    config["timeouts"] |= {"avoidNodeSeconds": 3600, "gangTimeoutSeconds": 600}
    folder = tmp_path_factory.mktemp("set-aside")
    with OperatorProcess(folder, operator_kubeconfig, SYSTEM_NAMESPACE, config) as process:
        yield process
    print(process.log)


async def _change_node(cluster: PlayedCluster, node: str, **spec: object) -> None:
    await cluster.api.request(
        "PATCH", NODES.path(name=node), body={"spec": spec}, content_type="application/merge-patch+json"
    )


async def _evict(cluster: PlayedCluster, pod: Raw) -> None:
    name = pod["metadata"]["name"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": cluster.namespace},
    }
    await cluster.api.request("POST", PODS.path(cluster.namespace, name, "eviction"), body=body)


async def _until_events(cluster: PlayedCluster, job: str, reason: str) -> None:
    async def recorded() -> bool:
        return reason in await cluster.events(job)

    await until(f"an event {reason} of {job}", recorded)


async def _until_cordon_is_seen(cluster: PlayedCluster, node: str, workers: int) -> None:
    """Wait until the operator knows that a node is cordoned: a job shows it that needs more GPUs than are free, and as many as there are.
    Nodes and jobs have watches of their own, so the operator may see a job first that is submitted now."""
    await cluster.submit("probe", workers=workers)

    async def reported() -> bool:
        waiting = (await cluster.job("probe")).get("status", {}).get("waiting") or {}
        return f"{node} takes no workers" in waiting.get("message", "")

    await until(f"the cordon of {node} is seen", reported)


async def _until_kept_off(cluster: PlayedCluster, job: str, node: str) -> None:
    """Wait until the taint alone keeps a job off a node. The operator may see the eviction before the taint; it avoids the node until then."""

    async def kept_off() -> bool:
        status = (await cluster.job(job))["status"]
        waiting = status.get("waiting") or {}
        reported = f"cannot go to {node}, {KEPT_OFF}" in waiting.get("message", "")
        return reported and waiting["reason"] == "NodesUnavailable" and not status.get("avoid")

    await until(f"the taint says it all of {job}, for as long as it is there", kept_off)


def _tolerating(**how: object) -> Raw:
    container = {"name": "trainer", "image": "example.invalid/trainer"}
    return {"spec": {"containers": [container], "tolerations": [{"key": "maintenance", **how}]}}


async def test_a_cordoned_node_keeps_its_workers_and_gets_new_ones_when_it_is_uncordoned(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    node = await cluster.add_node("n1", gpus=2)
    await cluster.submit("stays")
    await cluster.run_all("stays", 1)
    await cluster.until_condition("stays", "Running")
    await _change_node(cluster, node, unschedulable=True)
    await _until_cordon_is_seen(cluster, node, workers=2)
    await cluster.delete_job("probe")
    await cluster.submit("comes")
    waiting = await cluster.until_waiting("comes", "NodesUnavailable")
    assert f"{node} takes no workers (it is cordoned)" in waiting["message"]

    await _change_node(cluster, node, unschedulable=None)
    await cluster.run_all("comes", 1)
    await cluster.until_condition("comes", "Running")
    assert (await cluster.job("stays"))["status"]["attempt"] == 1


async def test_a_gang_leaves_a_node_that_gets_a_noexecute_taint_and_comes_back_when_it_is_taken_away(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    nodes = [await cluster.add_node(name) for name in ("n1", "n2")]
    await cluster.submit("gang", workers=2, backoffLimit=0)
    await cluster.run_all("gang", 2, attempt=1)
    await cluster.until_condition("gang", "Running")

    await _change_node(
        cluster, nodes[0], taints=[TAINT]
    )  # Kubernetes evicts one worker, the operator stops the other
    disrupted = await cluster.until_condition("gang", "Placed", "False", reason="WorkerDisrupted")
    assert f"was taken away from {nodes[0]}: DeletionByTaintManager" in disrupted["message"]
    await cluster.until_leaving("gang", 2)
    await _until_kept_off(cluster, "gang", nodes[0])
    await _until_events(cluster, "gang", "Disrupted")

    await _change_node(cluster, nodes[0], taints=None)
    await cluster.run_all("gang", 2, attempt=2)
    await cluster.until_condition("gang", "Running")
    status = (await cluster.job("gang"))["status"]
    assert (status["restarts"], status["preemptions"]) == (0, 0), "nobody's failure"


async def test_a_taint_that_is_tolerated_for_a_while_lets_workers_stay_for_that_while_and_none_come(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    node = await cluster.add_node("n1", gpus=3)
    for name, how in (
        ("for-good", {"operator": "Exists"}),
        ("for-an-hour", {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}),
        ("for-a-moment", {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 4}),
    ):
        await cluster.submit(name, template=_tolerating(**how))
        await cluster.run_all(name, 1)
        await cluster.until_condition(name, "Running")

    await _change_node(cluster, node, taints=[TAINT])
    await cluster.until_leaving("for-a-moment", 1)
    await _until_kept_off(cluster, "for-a-moment", node)
    for name in ("for-good", "for-an-hour"):
        status = (await cluster.job(name))["status"]
        assert status["attempt"] == 1, name
        assert (await cluster.condition(name, "Running"))["status"] == "True", name
    await cluster.submit("comes-for-good", template=_tolerating(operator="Exists"))
    await cluster.run_all("comes-for-good", 1)
    await cluster.until_condition("comes-for-good", "Running")


async def test_a_gang_moves_as_a_whole_when_one_worker_is_evicted_and_not_before_its_budget_allows(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    nodes = [await cluster.add_node(name) for name in ("n1", "n2")]
    await cluster.submit("gang", workers=2, backoffLimit=0)
    pods = await cluster.run_all("gang", 2, attempt=1)
    await cluster.until_condition("gang", "Running")
    budgets = f"/apis/policy/v1/namespaces/{cluster.namespace}/poddisruptionbudgets"
    budget = {
        "metadata": {"name": "gang"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"laneway.dev/job": "gang"}}},
    }
    await cluster.api.request("POST", budgets, body=budget)
    pinned = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await cluster.pods("gang")}
    leaves = pinned[pods[0]["metadata"]["name"]]
    await _change_node(cluster, leaves, unschedulable=True)
    with pytest.raises(ApiError) as refused:
        await _evict(cluster, pods[0])
    assert refused.value.status == 429
    assert (await cluster.condition("gang", "Running"))["status"] == "True"

    await cluster.api.request("DELETE", f"{budgets}/gang")
    third = await cluster.add_node("n3")
    await _until_cordon_is_seen(cluster, leaves, workers=3)
    await _evict(cluster, pods[0])
    disrupted = await cluster.until_condition("gang", "Placed", "False", reason="WorkerDisrupted")
    assert f"was taken away from {leaves}: EvictionByEvictionAPI" in disrupted["message"]
    await cluster.until_leaving("gang", 2)
    await cluster.run_all("gang", 2, attempt=2)
    await cluster.until_condition("gang", "Running")
    status = (await cluster.job("gang"))["status"]
    assert {each["node"] for each in status["placement"]} == {third, *nodes} - {leaves}
    assert (status["restarts"], status["preemptions"]) == (0, 0), "nobody's failure"
    assert not status.get("avoid"), "the cordon says it all"


async def test_a_gang_whose_node_is_deleted_says_so_and_starts_elsewhere(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    node = await cluster.add_node("n1")
    await cluster.submit("job")
    (pod,) = await cluster.run_all("job", 1, attempt=1)
    await cluster.until_condition("job", "Running")
    other = await cluster.add_node("n2")
    await cluster.remove_node(node)
    lost = await cluster.until_condition("job", "Placed", "False", reason="NodeLost")
    assert f"was on {node}, which is gone" in lost["message"]
    waiting = await cluster.until_waiting("job", "WorkersEnding")
    assert f"{pod['metadata']['name']} on {node}" in waiting["message"]
    # What Kubernetes' garbage collector does with pods of a node that is gone. The operator deletes them after it has written the status.
    await cluster.until_leaving("job", 1)
    await cluster.run_all("job", 1, attempt=2)
    await cluster.until_condition("job", "Running")
    status = (await cluster.job("job"))["status"]
    assert ([each["node"] for each in status["placement"]], status["restarts"]) == ([other], 0)
