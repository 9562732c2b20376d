"""The life of a job, as its user sees it."""

from __future__ import annotations

from laneway.api import names

from tests.integration.operator.operator_process import OperatorProcess
from tests.integration.operator.played_cluster import PlayedCluster
from tests.integration.operator.waiting import until


async def test_a_job_is_placed_runs_and_succeeds(operator: OperatorProcess, cluster: PlayedCluster) -> None:
    node = await cluster.add_node("n1")
    await cluster.submit("digits", gpus={"share": 50}, preemption={"gracePeriodSeconds": 7})
    (pod,) = await cluster.until_pods("digits", 1)

    assert pod["metadata"]["name"] == "digits-0"
    assert pod["metadata"]["annotations"][names.GPUS_ANNOTATION] == f"GPU-{node}-0"
    assert pod["spec"]["containers"][0]["resources"]["limits"][names.GPU_PERCENT] == "50"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 7
    assert pod["metadata"]["ownerReferences"][0]["controller"] is True

    await cluster.run(pod)
    await cluster.until_condition("digits", "Running")
    await cluster.finish(pod)
    await cluster.until_condition("digits", "Succeeded")

    status = (await cluster.job("digits"))["status"]
    assert "waiting" not in status
    assert {each["type"] for each in status["conditions"]} == {
        "Admitted",
        "Placed",
        "Running",
        "Preempted",
        "Succeeded",
        "Failed",
    }
    assert await cluster.pods("digits"), "the pods of an ended job stay for their logs"

    async def told() -> bool:
        return await cluster.events("digits") == ["Admitted", "Placed", "Started", "Succeeded"]

    await until("each step has one event", told)
