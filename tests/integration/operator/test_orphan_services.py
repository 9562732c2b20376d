"""Services of gangs that are deleted, or that have lost their job or their owner reference, on an API server
with Kubernetes' own garbage collector."""

from __future__ import annotations

from typing import Any

from laneway.api import names
from laneway.operator.state.resources import SERVICES, TRAINING_JOBS
from laneway.operator.watch.apiserver import ApiError, Raw

from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import holds_for, until

OPERATOR_CONFIG: dict[str, Any] = {**FAST, "cycle": {**FAST["cycle"], "relistSeconds": 1}}
"""Services are looked at in each relist."""

MERGE_PATCH = "application/merge-patch+json"


async def _running_gang(cluster: PlayedCluster, name: str) -> Raw:
    """Have a gang run; return its Service."""
    await cluster.submit(name, workers=2)
    await cluster.run_all(name, 2, attempt=1)
    await cluster.until_condition(name, "Running")
    service = await _service(cluster, name)
    assert service is not None
    return service


async def _service(cluster: PlayedCluster, name: str) -> Raw | None:
    try:
        return await cluster.api.request("GET", SERVICES.path(cluster.namespace, name))
    except ApiError as error:
        if error.status != 404:
            raise
        return None


async def _copy(cluster: PlayedCluster, service: Raw, name: str, **metadata: Any) -> None:
    """Make another Service with the labels of a gang's."""
    body = {
        "metadata": {"name": name, "labels": service["metadata"]["labels"], **metadata},
        "spec": {"clusterIP": "None", "selector": {"app": "else"}},
    }
    await cluster.api.request("POST", SERVICES.path(cluster.namespace), body=body)


async def test_a_service_that_somebody_deleted_is_there_again_when_the_next_attempt_has_workers(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=2)
    before = await _running_gang(cluster, "gang")
    await cluster.api.request("DELETE", SERVICES.path(cluster.namespace, "gang"))
    first, _ = await cluster.pods("gang")
    await cluster.finish(first, exit_code=1)

    async def first_of_next() -> Raw | None:
        await cluster.let_go("gang")
        pods = await cluster.pods("gang")
        return next((pod for pod in pods if pod["metadata"]["labels"][names.ATTEMPT_LABEL] == "2"), None)

    await until("the next attempt has a worker", first_of_next)
    after = await _service(cluster, "gang")
    assert after is not None
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"]["selector"] == before["spec"]["selector"]


async def test_the_service_of_a_job_deleted_with_orphan_propagation_is_removed_but_not_its_copy(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=2)
    service = await _running_gang(cluster, "gang")
    await _copy(cluster, service, "copied")
    path = TRAINING_JOBS.path(cluster.namespace, "gang")
    await cluster.api.request("DELETE", path, body={"propagationPolicy": "Orphan"})

    async def removed() -> bool:
        return await _service(cluster, "gang") is None

    await until("the Service is removed", removed)
    await cluster.until_leaving("gang", 2)
    assert await _service(cluster, "copied") is not None


async def test_a_service_that_lost_its_owner_is_adopted_and_goes_with_its_job(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=2)
    before = await _running_gang(cluster, "gang")
    path, nobody = SERVICES.path(cluster.namespace, "gang"), {"metadata": {"ownerReferences": None}}
    await cluster.api.request("PATCH", path, body=nobody, content_type=MERGE_PATCH)

    async def adopted() -> Raw | None:
        service = await _service(cluster, "gang")
        assert service is not None
        return service if service["metadata"].get("ownerReferences") else None

    after = await until("the Service has its owner back", adopted)
    assert after["metadata"]["uid"] == before["metadata"]["uid"], "it is the same Service"
    assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]
    assert after["spec"] == before["spec"]

    async def untouched() -> bool:
        return await _service(cluster, "gang") == after

    await holds_for("nothing more is written", untouched, seconds=3)
    await cluster.delete_job("gang")
    await cluster.until_leaving("gang", 2)

    async def removed() -> bool:
        return await _service(cluster, "gang") is None

    await until("the garbage collector takes it", removed)
