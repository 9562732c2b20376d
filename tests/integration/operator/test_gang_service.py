"""The Service of a namespace's gangs, on a real API server."""

from __future__ import annotations

from laneway.api import names
from laneway.operator.state.resources import SERVICES
from laneway.operator.watch.apiserver import ApiError, Raw

from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until

OPERATOR_CONFIG = {**FAST, "timeouts": {**FAST["timeouts"], "refusalBackoffSeconds": 1}}


async def _service(cluster: PlayedCluster) -> Raw | None:
    try:
        return await cluster.api.request("GET", SERVICES.path(cluster.namespace, names.GANG_SERVICE))
    except ApiError as error:
        if error.status != 404:
            raise
        return None


async def test_the_service_of_a_namespace_serves_all_gangs_and_outlives_them(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=5)
    await cluster.submit("single")
    await cluster.until_pods("single", 1)
    assert await _service(cluster) is None, "it has no peers"
    for name in ("one", "other"):
        await cluster.submit(name, workers=2)
        await cluster.until_pods(name, 2)
    service = await _service(cluster)
    assert service is not None
    for name, workers in (("single", 1), ("one", 2), ("other", 2)):
        for pod in await cluster.until_pods(name, workers):
            selected = service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
            assert selected is (workers > 1)
    await cluster.delete_job("one")

    async def ended() -> bool:
        return all("deletionTimestamp" in pod["metadata"] for pod in await cluster.pods("one"))

    await until("its workers leave", ended)
    after = await _service(cluster)
    assert after is not None
    assert after["metadata"]["uid"] == service["metadata"]["uid"]


async def test_a_foreign_service_of_that_name_is_left_alone_and_gangs_start_once_it_is_gone(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=2)
    theirs = {"metadata": {"name": names.GANG_SERVICE}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}
    before = await cluster.api.request("POST", SERVICES.path(cluster.namespace), body=theirs)
    await cluster.submit("gang", workers=2)
    refused = await cluster.until_condition("gang", "Placed", "False", reason="PodRefused")
    assert "rename it if it is yours, else delete it" in refused["message"]
    assert await _service(cluster) == before
    await cluster.api.request("DELETE", SERVICES.path(cluster.namespace, names.GANG_SERVICE))
    await cluster.until_pods("gang", 2)

    async def ours() -> Raw | None:
        return await _service(cluster)

    service = await until("the Service is there", ours)
    assert service["spec"]["publishNotReadyAddresses"] is True
