"""Which job is preempted for which."""

from __future__ import annotations

from laneway.api.rfc3339 import parse_time

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
    await cluster.let_go("long")
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
    operator.start()
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
