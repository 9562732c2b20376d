"""A gang leaves a GPU that its node has taken out of use, and is not to blame for it."""

from __future__ import annotations

import pytest
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import JobState

from tests.unit.operator.builders import (
    NOW,
    TIMEOUTS,
    JobBuilder,
    a_gpu_node,
    a_job,
    a_pod,
    a_session,
    a_view,
    condition_of,
    decided,
    gpu_uuid,
    reconciled_job_of,
    write_of,
)

LONG_AGO = NOW - TIMEOUTS.unhealthy_gpu_seconds
JUST_NOW = NOW - TIMEOUTS.unhealthy_gpu_seconds + 1


def a_gang() -> JobBuilder:
    """Two workers that run, the first on n1's GPU 0, the second on n2's."""
    return a_job().gang(2).placed("n1", "n2").running()


def its_pods(job: JobBuilder) -> list[WorkerPod]:
    return [a_pod(job.record, rank).running().record for rank in (0, 1)]


def test_a_gang_is_moved_off_a_gpu_that_stays_out_of_use() -> None:
    job = a_gang().spec(backoffLimit=0)
    pods = its_pods(job)
    view = a_view([job.record], pods, [a_gpu_node("n1", 1, sick={0: LONG_AGO}), a_gpu_node("n2", 2)])
    write = write_of(decided(view), "job")
    assert write is not None
    status = write.status
    assert condition_of(status, "Placed") == ("False", "GPUUnhealthy")
    assert condition_of(status, "Running") == ("False", "GPUUnhealthy")
    assert {pod.name for pod in write.after.pods_to_delete} == {"job-0", "job-1"}
    assert (status.restarts, status.preemptions) == (0, 0)
    assert status.avoid == (), "the node's other GPUs are as good as before"
    (event,) = write.after.events
    assert event.reason == "Disrupted"
    assert "worker 0 is on GPU n1/0 of n1, which is out of use: XID 79" in event.message


def test_a_gpu_that_recovers_soon_moves_nobody() -> None:
    job = a_gang()
    view = a_view([job.record], its_pods(job), [a_gpu_node("n1", sick={0: JUST_NOW}), a_gpu_node("n2")])
    reconciled = reconciled_job_of(job.record, *its_pods(job), view=view)
    assert reconciled.state is JobState.RUNNING
    assert reconciled.due_seconds == NOW + 1, "and then it is looked at again"
    assert decided(view).problem == ""


def test_another_gpu_of_the_node_is_no_reason_to_move() -> None:
    job = a_gang()
    view = a_view([job.record], its_pods(job), [a_gpu_node("n1", sick={1: LONG_AGO}), a_gpu_node("n2")])
    assert reconciled_job_of(job.record, *its_pods(job), view=view).state is JobState.RUNNING


def test_what_counts_is_the_gpu_that_the_kubelet_gave() -> None:
    job = a_gang()
    pods = its_pods(job)
    session = a_session(pods[0])
    view = a_view(
        [job.record], pods, [a_gpu_node("n1", sessions={1: [session]}, sick={1: LONG_AGO}), a_gpu_node("n2")]
    )
    reconciled = reconciled_job_of(job.record, *pods, view=view)
    assert condition_of(reconciled.job.status, "Running") == ("False", "GPUUnhealthy")


@pytest.mark.parametrize("failing", [0, 1])
def test_who_fails_with_a_gpu_is_not_to_blame(failing: int) -> None:
    job = a_gang().spec(backoffLimit=0)
    pods = its_pods(job)
    pods[failing] = a_pod(job.record, failing).ended(1, message="CUDA error").record
    view = a_view([job.record], pods, [a_gpu_node("n1", sick={0: JUST_NOW}), a_gpu_node("n2")])
    reconciled = reconciled_job_of(job.record, *pods, view=view)
    assert condition_of(reconciled.job.status, "Failed")[0] == "False"
    assert condition_of(reconciled.job.status, "Running") == ("False", "GPUUnhealthy")
    assert reconciled.job.status.restarts == 0
    assert f"worker {failing} failed while worker 0 is on GPU n1/0" in reconciled.events[-1].message


def test_who_fails_on_a_sound_gpu_has_failed() -> None:
    job = a_gang().spec(backoffLimit=0)
    pods = [its_pods(job)[0], a_pod(job.record, 1).ended(1).record]
    view = a_view([job.record], pods, [a_gpu_node("n1", sick={1: LONG_AGO}), a_gpu_node("n2")])
    assert condition_of(reconciled_job_of(job.record, *pods, view=view).job.status, "Failed")[0] == "True"


def test_who_is_done_has_no_use_for_the_gpu() -> None:
    job = a_gang()
    pods = [a_pod(job.record, 0).ended(0).record, a_pod(job.record, 1).running().record]
    view = a_view([job.record], pods, [a_gpu_node("n1", sick={0: LONG_AGO}), a_gpu_node("n2")])
    assert reconciled_job_of(job.record, *pods, view=view).state is JobState.RUNNING


def test_nobody_is_placed_on_a_gpu_that_is_out_of_use() -> None:
    job = a_job().visited()
    view = a_view([job.record], (), [a_gpu_node("n1", 2, sick={0: JUST_NOW})])
    write = write_of(decided(view), "job")
    assert write is not None
    assert [worker.gpus for worker in write.status.placement] == [(gpu_uuid("n1", 1),)]


def test_a_job_that_waits_for_a_gpu_to_recover_says_so() -> None:
    job = a_job().visited()
    view = a_view([job.record], (), [a_gpu_node("n1", 1, sick={0: LONG_AGO})])
    write = write_of(decided(view), "job")
    assert write is not None
    assert write.status.waiting is not None
    assert "unhealthy" in write.status.waiting.message
