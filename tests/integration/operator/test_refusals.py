"""What the API server itself refuses: what passes by itself is waited for, what never will is given back to its user."""

from __future__ import annotations

import asyncio
from typing import Any

from laneway.operator.state.resources import PODS
from laneway.operator.watch.apiserver import ApiError, Raw

from tests.support.operator.operator_process import OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


async def _until_counted(cluster: PlayedCluster, quota: str) -> None:
    """Wait until kube-controller-manager has counted: until then the API server does not know the usage."""

    async def look() -> Any:
        found = await cluster.api.request("GET", quota)
        return (found.get("status") or {}).get("hard")

    await until("the quota is counted", look)


async def test_a_gang_that_a_quota_halves_holds_nothing_and_starts_when_there_is_room(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=2)
    quotas = f"/api/v1/namespaces/{cluster.namespace}/resourcequotas"
    body = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    await cluster.api.request("POST", quotas, body=body)
    await _until_counted(cluster, f"{quotas}/few")
    await cluster.submit("gang", workers=2)

    waiting = await cluster.until_waiting("gang", "BackingOff")
    assert "exceeded quota: few" in waiting["message"]
    assert waiting["unblock"].startswith("room in the quota")
    await cluster.until_condition("gang", "Placed", "False", "QuotaExceeded")
    assert (await cluster.condition("gang", "Accepted"))["status"] == "True", "the job is not at fault"
    await cluster.until_pods("gang", 0)

    await cluster.api.request("DELETE", f"{quotas}/few")
    await _run_gang(cluster, "gang")
    assert (await cluster.job("gang"))["status"]["restarts"] == 0


async def test_a_webhook_that_is_down_is_named_and_waited_for(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=2)
    hook = {
        "name": f"{cluster.namespace}.policy.example",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 1,
    }
    await cluster.api.request(
        "POST", WEBHOOKS, body={"metadata": {"name": cluster.namespace}, "webhooks": [hook]}
    )
    try:
        await _until_the_webhook_stands_in_the_way(cluster)
        await cluster.submit("gang", workers=2)
        waiting = await cluster.until_waiting("gang", "BackingOff")
        assert hook["name"] in waiting["message"]
        assert waiting["unblock"] == "the webhook answering again"
        await cluster.until_condition("gang", "Placed", "False", "WebhookUnavailable")
        assert (await cluster.condition("gang", "Accepted"))["status"] == "True", "the job is not at fault"
    finally:
        await cluster.api.request("DELETE", f"{WEBHOOKS}/{cluster.namespace}")
    await _run_gang(cluster, "gang")


async def test_a_job_that_its_namespaces_rules_never_allow_is_refused_until_they_do(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    ranges = f"/api/v1/namespaces/{cluster.namespace}/limitranges"
    limits = [{"type": "Container", "max": {"cpu": "1"}}]
    await cluster.api.request(
        "POST", ranges, body={"metadata": {"name": "small"}, "spec": {"limits": limits}}
    )
    container = {
        "name": "trainer",
        "image": "example.invalid/x",
        "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}},
    }
    await cluster.submit("greedy", template={"spec": {"containers": [container]}})
    waiting = await cluster.until_waiting("greedy", "InvalidTemplate")
    assert "maximum cpu usage per Container is 1" in waiting["message"]
    await cluster.api.request("DELETE", f"{ranges}/small")
    await cluster.run_all("greedy", 1)
    await cluster.until_condition("greedy", "Running")


async def _run_gang(cluster: PlayedCluster, job: str) -> None:
    """Run both workers of the first attempt that gets both: the removed rule may still be cached."""

    async def look() -> list[Raw] | None:
        pods = [pod for pod in await cluster.pods(job) if "deletionTimestamp" not in pod["metadata"]]
        return (
            pods if len(pods) == 2 and (await cluster.condition(job, "Placed"))["status"] == "True" else None
        )

    pods = await until(f"{job} has both of its workers", look)
    await asyncio.gather(*(cluster.run(pod) for pod in pods))
    await cluster.until_condition(job, "Running")


async def _until_the_webhook_stands_in_the_way(cluster: PlayedCluster) -> None:
    """The API server learns of a webhook by a watch of its own."""
    pod = {
        "metadata": {"name": "trial"},
        "spec": {"containers": [{"name": "x", "image": "example.invalid/x"}]},
    }

    async def look() -> bool:
        try:
            await cluster.api.request("POST", PODS.path(cluster.namespace), query={"dryRun": "All"}, body=pod)
        except ApiError as error:
            return "failed calling webhook" in error.message
        return False

    await until("the webhook is asked", look)
