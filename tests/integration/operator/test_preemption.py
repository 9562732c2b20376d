"""Which job is preempted for which."""

from __future__ import annotations

import json

from laneway.api.rfc3339 import parse_time

from hack.cluster.control_plane import LoopbackControlPlane
from tests.support.operator.fixtures import played_cluster
from tests.support.operator.operator_process import OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import holds_for, until


async def test_a_job_of_higher_priority_gets_the_gpu_and_the_other_resumes_after_it(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    urgent = await cluster.add_priority_class("urgent", 1000)
    await cluster.submit("long")
    await cluster.run_all("long", 1, attempt=1)
    await cluster.until_condition("long", "Running")
    await cluster.submit("short", priorityClassName=urgent)

    preempted = await cluster.until_condition("long", "Preempted")
    assert preempted["reason"] == "HigherPriority"
    assert f"{cluster.namespace}/short" in preempted["message"]
    await cluster.until_waiting("short", "AwaitingRelease")

    async def none_yet() -> bool:
        return await cluster.pods("short") == []

    await holds_for("the GPU is not promised while the last worker ends", none_yet, 1.0)
    await cluster.until_leaving("long", 1)
    (pod,) = await cluster.run_all("short", 1)
    status = (await cluster.job("long"))["status"]
    assert status["preemptions"] == 1
    attained = status["attainedServiceGPUMilliseconds"]
    assert attained > 0

    await cluster.finish(pod)
    await cluster.until_condition("short", "Complete")
    await cluster.run_all("long", 1, attempt=2)
    await cluster.until_condition("long", "Running")
    await cluster.until_condition("long", "Preempted", "False", reason="PlacedAgain")

    async def more() -> bool:
        return (await cluster.job("long"))["status"]["attainedServiceGPUMilliseconds"] > attained

    await cluster.change("long", {"ttlSecondsAfterFinished": 3600})
    await until("a write brings the service along, which goes on from where it stood", more)
    await cluster.until_event("long", "Preempted")

    operator.kill()
    attained = (await cluster.job("long"))["status"]["attainedServiceGPUMilliseconds"]
    await cluster.change("long", {"ttlSecondsAfterFinished": 7200})
    await operator.start_again(cluster.api)
    await until("the restarted operator writes the status", more)
    status = (await cluster.job("long"))["status"]
    assert "preemption" not in status
    last = status["lastPreemption"]
    assert (last["action"], last["reason"]) == ("Evict", "HigherPriority")
    assert last["preemptor"] == f"{cluster.namespace}/short"
    assert last["message"] == preempted["message"]
    assert parse_time(last["since"]) == parse_time(preempted["lastTransitionTime"])
    (ended,) = status["endedAttempts"]
    assert (ended["attempt"], ended["outcome"], ended["reason"]) == (1, "Preempted", "HigherPriority")
    assert (ended["message"], ended["nodes"]) == (preempted["message"], [f"{cluster.namespace}-n1"])
    assert ended["attainedServiceGPUMilliseconds"] > 0


async def everything_visible(cluster: PlayedCluster, job: str) -> str:
    """All that the users of a namespace can read of what happened to a job: its status, and all events of the namespace."""
    events = await cluster.api.request("GET", f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events")
    notes = [[each["metadata"]["name"], each["reason"], each["note"]] for each in events["items"]]
    return json.dumps([(await cluster.job(job))["status"], notes])


async def test_the_users_of_two_namespaces_are_not_told_whose_job_preempts_or_blocks_theirs(
    operator: OperatorProcess, cluster: PlayedCluster, control_plane: LoopbackControlPlane
) -> None:
    """The nodes and the priority class are of a third one."""
    await cluster.add_node("n1")
    urgent = await cluster.add_priority_class("urgent", 1000)
    async with played_cluster(control_plane) as ours, played_cluster(control_plane) as theirs:
        ours.model = theirs.model = cluster.model
        await ours.submit("walrus")
        await ours.run_all("walrus", 1, attempt=1)
        await ours.until_condition("walrus", "Running")
        await theirs.submit("ocelot", priorityClassName=urgent)

        preempted = await ours.until_condition("walrus", "Preempted")
        assert preempted["message"] == "Preempted by a job of another namespace (of a higher priority)."
        assert (await ours.job("walrus"))["status"]["preemption"].get("preemptor", "") == ""
        waiting = await theirs.until_waiting("ocelot", "AwaitingRelease")
        assert waiting["message"] == "Waiting for a job of another namespace to release its GPUs."
        assert (waiting.get("blockers", []), waiting["blockersElsewhere"]) == ([], 1)
        await ours.until_leaving("walrus", 1)  # it is deleted after the statuses are written
        await theirs.run_all("ocelot", 1)
        await theirs.until_condition("ocelot", "Running")
        await ours.until_waiting("walrus", "GPUsBusy")
        await ours.until_event("walrus", "Preempted")
        await theirs.until_event("ocelot", "Started")

        for own, job, other, others_job in (
            (ours, "walrus", theirs, "ocelot"),
            (theirs, "ocelot", ours, "walrus"),
        ):
            visible = await everything_visible(own, job)
            assert job in visible
            assert others_job not in visible
            assert other.namespace not in visible
        walrus, ocelot = f"{ours.namespace}/walrus", f"{theirs.namespace}/ocelot"
        lines = [json.loads(line) for line in operator.log.splitlines() if line.startswith("{")]
        logged = {(each.get("job"), each.get("reason"), *each.get("others", ())) for each in lines}
        assert {
            (walrus, "Preempted", ocelot),
            (ocelot, "Preempting", walrus),
            (ocelot, "AwaitingRelease", walrus),
        } <= logged, "administrators find the names in the log"


async def test_a_job_that_refuses_preemption_keeps_its_gpu(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    urgent = await cluster.add_priority_class("urgent", 1000)
    await cluster.submit("steady", preemption={"mode": "Never"})
    await cluster.run_all("steady", 1)
    await cluster.until_condition("steady", "Running")
    await cluster.submit("short", priorityClassName=urgent)
    await cluster.until_waiting("short", "GPUsBusy")
    assert (await cluster.condition("steady", "Running"))["status"] == "True"


async def test_a_running_job_reaches_its_deadline(operator: OperatorProcess, cluster: PlayedCluster) -> None:
    await cluster.add_node("n1")
    await cluster.submit("bounded", activeDeadlineSeconds=1)
    await cluster.run_all("bounded", 1)
    failed = await cluster.until_condition("bounded", "Failed")
    assert failed["reason"] == "DeadlineExceeded"
    await cluster.until_leaving("bounded", 1)
