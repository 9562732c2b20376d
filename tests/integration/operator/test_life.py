"""The life of a job, as its user sees it."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.api import names
from laneway.operator.state.resources import SERVICES, TRAINING_JOBS
from laneway.operator.watch.apiserver import ApiError

from tests.support.operator.operator_process import OperatorProcess
from tests.support.operator.played_cluster import GIB, PlayedCluster
from tests.support.operator.waiting import until


async def test_a_job_is_placed_runs_and_succeeds(operator: OperatorProcess, cluster: PlayedCluster) -> None:
    node = await cluster.add_node("n1")
    await cluster.submit(
        "digits", gpus={"type": "Share", "sharePercent": 50}, preemption={"gracePeriodSeconds": 7}
    )
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
    await cluster.until_condition("digits", "Complete")

    status = (await cluster.job("digits"))["status"]
    assert "waiting" not in status
    assert {each["type"] for each in status["conditions"]} == {
        "Accepted",
        "Placed",
        "Running",
        "Preempted",
        "Suspended",
        "Complete",
        "Failed",
    }
    assert await cluster.pods("digits"), "the pods of an ended job stay for their logs"

    async def recorded() -> bool:
        # A job that had to wait, as where the node is seen after it, was accepted in a write of its own.
        events = await cluster.events("digits")
        return [each for each in events if each != "Accepted"] == ["Placed", "Started", "Completed"]

    await until("each step has one event", recorded)


async def test_a_gang_gets_its_service_and_rendezvous(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    for name in ("n1", "n2"):
        await cluster.add_node(name, gpus=2)
    await cluster.submit("ddp", workers=4)
    pods = await cluster.until_pods("ddp", 4)

    environments = [
        {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]} for pod in pods
    ]
    assert [each["RANK"] for each in environments] == ["0", "1", "2", "3"]
    assert {each["WORLD_SIZE"] for each in environments} == {"4"}
    assert {each["MASTER_ADDR"] for each in environments} == {"ddp-0.laneway"}
    gpus = [pod["metadata"]["annotations"][names.GPUS_ANNOTATION] for pod in pods]
    assert len(set(gpus)) == 4, "each worker has a GPU of its own"
    service = await cluster.api.request("GET", SERVICES.path(cluster.namespace, "laneway"))
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"].items() <= pods[0]["metadata"]["labels"].items()

    for pod in pods[:3]:
        await cluster.run(pod)
    waiting = await cluster.until_waiting("ddp", "Starting")
    assert waiting["since"] is not None
    await cluster.run(pods[3])
    await cluster.until_condition("ddp", "Running")
    for pod in pods:
        await cluster.finish(pod)
    await cluster.until_condition("ddp", "Complete")


async def test_a_job_that_can_never_fit_says_why_and_what_would_help(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=2)
    await cluster.submit("huge", workers=3)
    waiting = await cluster.until_waiting("huge", "NotEnoughGPUs")
    assert waiting["message"]
    assert waiting["unblock"]
    placed = await cluster.condition("huge", "Placed")
    assert (placed["status"], placed["reason"]) == ("False", "NotEnoughGPUs")


async def test_an_ended_job_is_deleted_after_its_ttl(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    await cluster.submit("brief", ttlSecondsAfterFinished=0)
    (pod,) = await cluster.run_all("brief", 1)
    await cluster.finish(pod)

    async def gone() -> bool:
        try:
            await cluster.job("brief")
        except ApiError as error:
            return error.status == 404
        return False

    await until("brief is deleted", gone)


async def test_an_edited_summary_of_an_ended_job_is_written_again(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    await cluster.submit("edited")
    (pod,) = await cluster.run_all("edited", 1)
    await cluster.finish(pod)
    await cluster.until_condition("edited", "Complete", "True")
    edited = await cluster.api.request(
        "PATCH",
        TRAINING_JOBS.path(cluster.namespace, "edited", "status"),
        body={"status": {"state": "Running", "reason": "Edited"}},
        content_type="application/merge-patch+json",
    )
    assert edited["status"]["state"] == "Running"

    async def corrected() -> bool:
        status = (await cluster.job("edited"))["status"]
        return (status["state"], status["reason"]) == ("Complete", "")

    await until("the summary agrees with the conditions", corrected)


async def test_what_the_node_measured_is_in_the_status(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    node = await cluster.add_node("n1", gpus=2)
    await cluster.submit("measured", gpus={"type": "Share", "sharePercent": 40})
    (pod,) = await cluster.run_all("measured", 1)
    pod = (await cluster.pods("measured"))[0]
    chosen = int(pod["metadata"]["annotations"][names.GPUS_ANNOTATION].rsplit("-", 1)[1])
    actual = 1 - chosen
    await cluster.add_session(
        pod, actual, sharePercent=40, profiled=True, persistentBytes=3 * GIB, ephemeralBytes=GIB, turns=17
    )

    async def measured() -> dict[str, Any] | None:
        status = (await cluster.job("measured"))["status"]
        return status if "profile" in status else None

    status = await until("the profile is in the status", measured)
    assert status["profile"]["persistentBytes"] == 3 * GIB
    assert status["turns"] == 17
    assert status["placement"][0]["gpus"] == [f"GPU-{node}-{actual}"], "what the kubelet did is the truth"


async def test_the_page_for_prometheus_shows_the_job_and_forgets_it(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    await cluster.submit("counted", gpus={"type": "Share", "sharePercent": 30})
    await cluster.run_all("counted", 1)
    await cluster.until_condition("counted", "Running")
    labels = f'namespace="{cluster.namespace}",training_job="counted"'

    async def shown() -> bool:
        return f"laneway_job_attained_service_gpu_seconds{{{labels}}}" in operator.get("/metrics")

    async def hidden() -> bool:
        return 'training_job="counted"' not in operator.get("/metrics")

    await until("the job's service is shown", shown)
    page = operator.get("/metrics")
    assert f'laneway_jobs{{namespace="{cluster.namespace}",state="running"}} 1.0' in page
    assert "laneway_leader 1.0" in page
    assert 'laneway_api_writes_total{resource="pods",result="ok",verb="create"}' in page
    assert operator.get("/healthz") == operator.get("/readyz") == "ok\n"

    await cluster.delete_job("counted")
    await until("nothing of the job is shown any more", hidden)


async def test_a_suspended_job_is_made_elastic_and_resumes_with_its_new_range(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=2)
    await cluster.submit("grows")
    await cluster.run_all("grows", 1)
    await cluster.until_condition("grows", "Running")
    with pytest.raises(ApiError, match="minWorkers can change only while the job has no workers"):
        await cluster.change("grows", {"minWorkers": 1, "maxWorkers": 2})
    await cluster.change("grows", {"suspend": True})
    await cluster.until_leaving("grows", 1)
    await cluster.until_condition("grows", "Suspended")

    await cluster.change("grows", {"minWorkers": 1, "maxWorkers": 2, "workers": 2, "suspend": False})
    pods = await cluster.until_pods("grows", 2, attempt=2)
    environment = {each["name"]: each.get("value") for each in pods[1]["spec"]["containers"][0]["env"]}
    assert (environment["RANK"], environment["WORLD_SIZE"]) == ("1", "2")
    status = (await cluster.job("grows"))["status"]
    assert (status["workers"], status["selector"]) == (
        2,
        f"laneway.dev/job-uid={pods[0]['metadata']['labels'][names.JOB_UID_LABEL]}",
    )
