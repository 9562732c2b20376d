"""What nodes have for workers beside GPUs, and which refusals by kube-scheduler still stand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from laneway.api.attempt_status import AttemptOutcome
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.scheduler_refusal import new_refusal, reviewed
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.gpu_node_record import GPUNodeRecord, parse_gpu_node
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.node_record import NodeRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import HostResources, JobState, WaitingCode
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import (
    NOW,
    JobBuilder,
    a_gpu_node,
    a_job,
    a_node,
    a_pod,
    a_session,
    a_view,
    context_of,
    reconciled_job_of,
    snapshot_of,
)


def offering(cpus: int, name: str = "n1") -> NodeRecord:
    return replace(a_node(name), allocatable={"cpu": 1000 * cpus, "pods": 10})


def with_others(cpus: int | None, name: str = "n1") -> GPUNodeRecord:
    others = None if cpus is None else {"cpu": 1000 * cpus, "pods": 1}
    return replace(a_gpu_node(name), other_pods=others)


def asking(name: str, cpus: int) -> JobBuilder:
    container: dict[str, Any] = {"name": "trainer", "image": "i"}
    container["resources"] = {"requests": {"cpu": str(cpus)}}
    return a_job(name).spec(template={"spec": {"containers": [container]}})


def host_of(view: ClusterState) -> HostResources | None:
    return snapshot_of(view).nodes[0].host


def test_other_pods_are_taken_off_what_the_node_offers() -> None:
    assert host_of(a_view(gpu_nodes=[with_others(3)], nodes=[a_node("n1")])) is None
    for others, cpus in ((3, 5), (None, 8), (9, -1)):
        view = a_view(gpu_nodes=[with_others(others)], nodes=[offering(8)])
        assert dict(host_of(view).amounts)["cpu"] == 1000 * cpus  # type: ignore[union-attr]


def test_a_pod_that_passes_by_keeps_a_job_waiting_and_no_longer() -> None:
    job = asking("big", 6).visited().record
    waiting = {}
    for cpus in (3, 1, 9):
        view = a_view([job], [], [with_others(cpus)], [offering(8)])
        result = Cycle(OperatorConfig()).run(view, WriteHistory({}, {}), NOW)
        waiting[cpus] = result.waiting["ns/big"].code if result.waiting else None
    held = WaitingCode.HELD_BY_OTHER_PODS
    assert waiting == {3: held, 1: None, 9: held}


def test_a_worker_counts_once_with_what_was_injected_into_its_pod() -> None:
    job = asking("a", 2).placed("n1").running().record
    builder = a_pod(job).running()
    view = a_view([job], [builder.record], [with_others(0)], [offering(8)])
    assert snapshot_of(view).jobs[0].demand.requests == HostResources.of({"cpu": 2000, "pods": 1})
    assert host_of(view) == HostResources.of({"cpu": 8000, "pods": 9})
    builder.raw["spec"]["containers"].append({"name": "proxy", "resources": {"requests": {"cpu": "1"}}})
    view = a_view([job], [builder.record], [with_others(0)], [offering(8)])
    assert host_of(view) == HostResources.of({"cpu": 7000, "pods": 9})


def test_a_worker_that_no_placement_accounts_for_counts_until_it_ends() -> None:
    job = asking("a", 2).placed("n1").running().record
    pod = a_pod(job).running().record
    assert host_of(a_view([], [pod], [with_others(0)], [offering(8)])) == HostResources.of(
        {"cpu": 6000, "pods": 8}
    )
    ended = a_pod(job).ended(0).record
    assert host_of(a_view([], [ended], [with_others(0)], [offering(8)])) == HostResources.of(
        {"cpu": 8000, "pods": 9}
    )


def test_what_a_deleted_jobs_worker_still_requests_is_waited_for() -> None:
    gone = asking("a", 6).placed("n1").running().record
    pod = a_pod(gone).running().deleting().record
    sessions = {0: [a_session(pod)], 1: [a_session(pod)]}
    node = replace(a_gpu_node("n1", sessions=sessions), other_pods={})
    view = a_view([asking("big", 6).visited().record], [pod], [node], [offering(8)])
    assert host_of(view) == HostResources.of({"cpu": 8000, "pods": 10})
    result = Cycle(OperatorConfig()).run(view, WriteHistory({}, {}), NOW)
    assert not result.decision.starts, "it is not gone yet"
    assert result.waiting["ns/big"].code is WaitingCode.AWAITING_RELEASE


def test_a_report_that_cannot_be_read_counts_as_none() -> None:
    raw = {"metadata": {"name": "n1"}, "status": {"otherPodsRequests": {"cpu": "many"}}}
    assert parse_gpu_node(raw).other_pods is None
    assert not parse_gpu_node(raw).problem


OTHER = a_pod(a_job("other").placed("n1").running().record).running().record


def a_refused_job(*there: WorkerPod) -> tuple[JobRecord, ClusterState]:
    """A job whose worker was refused on n1 a while ago, by what was there then."""
    view = a_view([], there, [with_others(3)], [offering(8)])
    refused = new_refusal(a_job().record, ["n1"], context_of(view, now=NOW - 600))
    job = a_job().placed("n1", at=NOW - 650)
    job = job.after(
        transitions.unplaced, AttemptOutcome.ROLLED_BACK, "WorkerUnschedulable", "no", NOW - 600, NOW - 600
    )
    return job.status(scheduler_refusal=refused).record, view


def stands(job: JobRecord, view: ClusterState, now: float = NOW) -> bool:
    refusal, _ = reviewed(job, context_of(view, now=now))
    return refusal is not None and not refusal.lifted


def test_a_refusal_stands_until_something_changes_that_may_help() -> None:
    job, view = a_refused_job(OTHER)
    assert stands(job, view)
    assert stands(job, a_view([], [OTHER], [with_others(4)], [offering(8)])), "less is left"
    assert not stands(job, a_view([], [OTHER], [with_others(2)], [offering(8)])), "another pod has left"
    assert not stands(job, a_view([], [OTHER], [with_others(3)], [offering(9)])), "the node has grown"
    assert not stands(job, a_view([], [], [with_others(3)], [offering(8)])), "a worker has left"
    assert not stands(job, a_view([], [OTHER], [with_others(3)], [])), "the node is gone"
    assert not stands(replace(job, generation=2), view), "its spec has changed"


def test_a_refusal_on_a_node_whose_pods_request_more_than_it_has_can_be_reviewed() -> None:
    job, _ = a_refused_job()
    full = a_view([], [], [with_others(9)], [offering(8)])
    refused = new_refusal(job, ["n1"], context_of(full, now=NOW - 600))
    assert refused.nodes[0].available["cpu"] == "0m"
    job = job.with_status(job.status.model_copy(update={"scheduler_refusal": refused}))
    assert stands(job, full)
    assert not stands(job, a_view([], [], [with_others(7)], [offering(8)]))


def test_a_refusal_that_somebody_edited_does_not_stand() -> None:
    job, view = a_refused_job()
    refused = job.status.scheduler_refusal
    assert refused is not None
    nodes = tuple(each.model_copy(update={"available": {"cpu": "many"}}) for each in refused.nodes)
    edited = refused.model_copy(update={"nodes": nodes})
    assert not stands(job.with_status(job.status.model_copy(update={"scheduler_refusal": edited})), view)


def test_pods_that_a_node_reports_late_do_not_count_as_leaving_later() -> None:
    job, _ = a_refused_job()
    late = a_view([], [], [with_others(5)], [offering(8)])
    settled, _ = reviewed(job, context_of(late, now=NOW - 590))
    assert settled is not None
    job = job.with_status(job.status.model_copy(update={"scheduler_refusal": settled}))
    assert not stands(job, a_view([], [], [with_others(3)], [offering(8)]))


def test_after_each_refusal_in_a_row_it_stands_for_longer() -> None:
    job, view = a_refused_job(OTHER)
    left = a_view([], [], [with_others(3)], [offering(8)])
    refusal = job.status.scheduler_refusal
    for times in (1, 2, 3):
        assert refusal is not None
        assert refusal.times == times
        status = job.status.model_copy(update={"scheduler_refusal": refusal})
        again = NOW - 600 + 300 * 2.0 ** (times - 1)
        noticed, due = reviewed(job.with_status(status), context_of(left, now=NOW - 550))
        assert noticed is not None
        assert (due, noticed.lifted) == (again, False)
        job = job.with_status(status.model_copy(update={"scheduler_refusal": noticed}))
        assert stands(job, view, now=again - 1), "a change is remembered, whatever comes after it"
        assert not stands(job, view, now=again)
        refusal = new_refusal(job, ["n1"], context_of(view, now=NOW - 600))


def test_a_refused_job_competes_without_preempting_until_it_runs() -> None:
    job, view = a_refused_job()
    reconciled = reconciled_job_of(job, view=view)
    assert reconciled.state is JobState.WAITING
    view.note_job(None, job)
    assert not snapshot_of(view).jobs[0].demand.preempts
    running = a_job().placed("n1").status(scheduler_refusal=job.status.scheduler_refusal).running()
    assert running.record.status.scheduler_refusal is None


def test_a_refusal_by_kube_scheduler_is_written_down_with_its_nodes() -> None:
    job = a_job().placed("n1", at=NOW - 30).record
    pod = a_pod(job).unschedulable(since=NOW - 20).record
    view = a_view([job], [pod, OTHER], [with_others(3)], [offering(8)])
    refusal = reconciled_job_of(job, pod, view=view).job.status.scheduler_refusal
    assert refusal is not None
    assert [(each.node, each.available, len(each.pods)) for each in refusal.nodes] == [
        ("n1", {"cpu": "5000m", "pods": "9"}, 1)
    ]
    assert OTHER.uid not in refusal.nodes[0].pods, "the job's user is not told of other jobs' pods"
