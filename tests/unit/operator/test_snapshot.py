"""What the planner gets to see."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.api.job_conditions import WAITING_FOR_LANE
from laneway.operator.cycle.scheduler_nodes import first_reporters, scheduler_node
from laneway.operator.lifecycle import transitions
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.gpu_node_record import GPUNodeRecord
from laneway.scheduling import JobState, PreemptionAction
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import (
    GIB,
    NOW,
    JobBuilder,
    a_gpu_node,
    a_job,
    a_node,
    a_plain_session,
    a_pod,
    a_session,
    a_view,
    snapshot_of,
)

ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"


def foreign_of(view: ClusterState) -> dict[str, list[tuple[str, int]]]:
    return {
        gpu.uuid: [(tenant.key.split("/")[1], tenant.share_percent) for tenant in gpu.foreign]
        for node in snapshot_of(view).nodes
        for gpu in node.gpus
        if gpu.foreign
    }


@pytest.mark.parametrize(
    ("node", "gpu_node", "silent", "want"),
    [
        (a_node("n1"), a_gpu_node("n1"), [], ""),
        (a_node("n1", cordoned=True), a_gpu_node("n1"), [], "it is cordoned"),
        (a_node("n1", ready=False), a_gpu_node("n1"), [], "it is not ready"),
        (a_node("n1"), a_gpu_node("n1", ready=False), [], "its node agent is not ready"),
        (
            a_node("n1"),
            a_gpu_node("n1", doubly_offered=True),
            [],
            "another device plugin hands out its GPUs",
        ),
        (
            a_node("n1", allocatable={"nvidia.com/gpu": "8"}),
            a_gpu_node("n1"),
            [],
            "another device plugin hands out its GPUs",
        ),
        (a_node("n1", allocatable={"nvidia.com/gpu": "0"}), a_gpu_node("n1"), [], ""),
        (a_node("n1"), a_gpu_node("n1"), ["n1"], "its node agent has not renewed its Lease for a while"),
        (a_node("other"), a_gpu_node("n1"), [], "there is no such node in the cluster"),
    ],
    ids=[
        "fine",
        "cordoned",
        "not ready",
        "agent not ready",
        "doubly offered",
        "offered by another plugin just now",
        "another plugin without GPUs",
        "agent silent",
        "no Node",
    ],
)
def test_where_no_new_worker_goes(node: object, gpu_node: object, silent: list[str], want: str) -> None:
    (seen,) = snapshot_of(a_view(gpu_nodes=[gpu_node], nodes=[node], silent=silent)).nodes  # type: ignore[list-item]
    assert (seen.schedulable, seen.reason) == (not want, want)


def test_what_a_node_measured_of_moves_reaches_the_planner() -> None:
    gpu_node = a_gpu_node("n1", 2)
    first, second = gpu_node.gpus
    moved = replace(gpu_node, gpus=(first.model_copy(update={"move_milliseconds_per_gib": 1500}), second))
    (node,) = snapshot_of(a_view(gpu_nodes=[moved])).nodes
    assert [gpu.moved_seconds_per_gib for gpu in node.gpus] == [1.5, None]


def started_of(job: JobBuilder, since: float = NOW - 50) -> float | None:
    view = a_view([job.record], [a_pod(job.record).running(since=since).record], [a_gpu_node("n1")])
    return snapshot_of(view).jobs[0].started_seconds


def test_a_wait_for_a_lane_does_not_move_the_start_of_an_attempt() -> None:
    job = a_job().placed("n1", at=NOW - 60).running(since=NOW - 50)
    assert started_of(job) == NOW - 50
    job = job.after(transitions.kept_from_gpus, WAITING_FOR_LANE, "no lane", NOW - 30)
    assert started_of(job) == NOW - 50
    assert started_of(job.after(transitions.freed, NOW - 10)) == NOW - 50


def test_a_resumed_job_starts_when_it_resumes_and_a_later_wait_for_a_lane_does_not_move_that() -> None:
    job = a_job().placed("n1", at=NOW - 60).running(since=NOW - 50)
    pause = (PreemptionAction.PAUSE, "HigherQueue", "Preempted.", NOW - 40, "ns/b")
    job = job.after(transitions.asked_to_pause, *pause).after(transitions.paused, NOW - 35)
    job = job.after(transitions.resumed, NOW - 25)
    assert started_of(job) == NOW - 25
    job = job.after(transitions.kept_from_gpus, WAITING_FOR_LANE, "no lane", NOW - 15).after(
        transitions.freed, NOW - 5
    )
    assert started_of(job) == NOW - 25


def test_an_attempt_starts_neither_before_its_placement_nor_after_it_was_seen_to_run() -> None:
    job = a_job().placed("n1", at=NOW - 60).running(since=NOW - 50)
    assert started_of(job, since=NOW - 70) == NOW - 60
    assert started_of(job, since=NOW + 70) == NOW - 50


def test_a_gpu_that_two_nodes_claim_is_counted_once() -> None:
    twin = a_gpu_node("n1", gpus=1).gpus[0]
    thief = a_gpu_node("n2", gpus=1)
    view = a_view(gpu_nodes=[a_gpu_node("n1", gpus=1), type(thief)("n2", (twin,), True, "", ())])
    first, second = sorted(snapshot_of(view).nodes, key=lambda node: node.name)
    assert first.schedulable
    assert len(first.gpus) == 1
    assert not second.schedulable
    assert second.reason == "it claims n1/0, a GPU of n1"


def test_plain_pods_are_foreign_tenants_until_they_end() -> None:
    there = a_plain_session("notebook", 30, profiled=True, persistentBytes=GIB)
    gone = a_plain_session("old", 50, state="Ended")
    view = a_view(gpu_nodes=[a_gpu_node("n1", sessions={0: [there, gone]})])
    assert foreign_of(view) == {"n1/0": [("notebook", 30)]}


def test_a_jobs_own_session_is_counted_in_its_placement_only() -> None:
    job = a_job().placed("n1").running().record
    pod = a_pod(job).running().record
    view = a_view([job], [pod], [a_gpu_node("n1", sessions={0: [a_session(pod)]})])
    assert foreign_of(view) == {}


def test_a_session_that_lost_its_uid_is_found_by_the_pods_name() -> None:
    job = a_job().placed("n1").running().record
    pod = a_pod(job).running().record
    view = a_view([job], [pod], [a_gpu_node("n1", sessions={0: [a_session(pod, podUID="")]})])
    assert foreign_of(view) == {}


def test_workers_that_share_a_gpu_against_the_plan_are_counted_where_they_are() -> None:
    job = a_job().gang(2).placed("n1", "n1").running().record
    pods = [a_pod(job, rank).running().record for rank in (0, 1)]
    both_on_one = [a_session(pods[0], key="a"), a_session(pods[1], key="b")]
    view = a_view([job], pods, [a_gpu_node("n1", sessions={0: both_on_one})])
    assert foreign_of(view) == {"n1/0": [("job-1", 100)]}
    (seen,) = snapshot_of(view).jobs
    assert [worker.gpus for worker in seen.placement] == [("n1/0",), ("n1/1",)], (
        "what was planned is held too"
    )


def test_an_orphan_holds_its_gpu_before_its_session_shows_up() -> None:
    pod = a_pod(a_job("gone").placed("n1").record).running().record
    assert foreign_of(a_view([], [pod], [a_gpu_node("n1")])) == {"n1/0": [("gone-0", 100)]}


def leaving_of(view: ClusterState) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (job.key.split("/")[1], worker.gpus)
        for job in snapshot_of(view).jobs
        if job.state is JobState.TERMINATING
        for worker in job.placement
    ]


def test_a_finished_pod_leaves_what_its_node_still_reports_for_a_moment_and_no_longer() -> None:
    job = a_job("gone").placed("n1").record
    just, long_ago, fast = (a_pod(job).ended(at=NOW - ago).record for ago in (2, 20, -3600))
    reported = a_view([], [just], [a_gpu_node("n1", sessions={0: [a_session(just)]})])
    assert leaving_of(reported) == [("gone-0", ("n1/0",))]
    assert foreign_of(reported) == {}, "who is about to go is no stranger"
    for view in (
        a_view([], [just], [a_gpu_node("n1", sessions={0: [a_session(just, state="Ended")]})]),
        a_view([], [just], [a_gpu_node("n1")]),
        a_view([], [long_ago], [a_gpu_node("n1", sessions={0: [a_session(long_ago)]})]),
        a_view([], [fast], [a_gpu_node("n1", sessions={0: [a_session(fast)]})]),  # its node's clock
    ):
        assert (leaving_of(view), foreign_of(view)) == ([], {})


def test_a_worker_whose_pod_is_deleted_leaves_until_its_node_reports_it() -> None:
    pod = a_pod(a_job("gone").placed("n1").record).record
    session = a_session(pod, job="gone", rank=0)
    view = a_view(gpu_nodes=[a_gpu_node("n1", sessions={0: [session]})])
    assert (leaving_of(view), foreign_of(view)) == ([("gone-0", ("n1/0",))], {})


def test_a_gang_on_a_node_that_vanished_still_holds_its_other_gpus() -> None:
    job = a_job().gang(2).placed("n1", "n2").running().record
    pods = [a_pod(job, rank).running().record for rank in (0, 1)]
    view = a_view([job], pods, [a_gpu_node("n1")], nodes=[a_node("n1"), a_node("n2")])
    snapshot = snapshot_of(view)
    assert snapshot.jobs == ()
    assert [(tenant.key, tenant.share_percent) for tenant in snapshot.nodes[0].gpus[0].foreign] == [
        ("ns/job/0", 100)
    ]


def test_a_waiting_job_avoids_nodes_by_its_template_and_by_taints() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"disk": "ssd"}}}
    picky = a_job("picky").spec(template=template).visited().record
    plain = a_job("plain").visited().record
    nodes = [
        a_node("n1", labels={"disk": "ssd"}),
        a_node("n2"),
        a_node("n3", labels={"disk": "ssd"}, taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}]),
    ]
    view = a_view([picky, plain], gpu_nodes=[a_gpu_node(each.name) for each in nodes], nodes=nodes)
    assert snapshot_of(view).avoid == {"ns/picky": frozenset({"n2", "n3"}), "ns/plain": frozenset({"n3"})}


def test_what_a_running_job_has_had_is_counted_up_to_now() -> None:
    job = (
        a_job()
        .share(50)
        .placed("n1", percent=50)
        .running(since=NOW - 30)
        .status(attained_service_gpu_milliseconds=7000)
        .record
    )
    view = a_view([job], [a_pod(job).running(since=NOW - 30).record], [a_gpu_node("n1")])
    (seen,) = snapshot_of(view).jobs
    assert seen.state is JobState.RUNNING
    assert seen.service_gpu_seconds(NOW) == pytest.approx(7 + 15)
    assert seen.ran_seconds(NOW) == pytest.approx(30)
    assert seen.started_seconds == pytest.approx(NOW - 30)


def test_a_gpu_is_seen_with_what_it_is_held_by() -> None:
    held = [gpu.model_copy(update={"enforcement": "MPS"}) for gpu in a_gpu_node("n1", gpus=1).gpus]
    view = a_view(gpu_nodes=[GPUNodeRecord("n1", tuple(held), True, "", ()), a_gpu_node("n2", gpus=1)])
    seen = {gpu.uuid: gpu.enforcement for node in snapshot_of(view).nodes for gpu in node.gpus}
    assert seen == {"n1/0": "MPS", "n2/0": "Cooperative"}


@pytest.mark.parametrize(
    ("levels", "labels", "want"),
    [
        (None, {ZONE: "z1", "topology.kubernetes.io/rack": "r7"}, ((ZONE, "z1"),)),
        ([ZONE, RACK], {ZONE: "z1", RACK: "r7", "other": "x"}, ((ZONE, "z1"), (RACK, "r7"))),
        ([ZONE, RACK], {RACK: "r7"}, ((ZONE, ""), (RACK, "r7"))),
        (None, {"other": "x"}, ()),
        (["example.com/switch"], {"example.com/switch": "s", ZONE: "z1"}, (("example.com/switch", "s"),)),
        ([], {ZONE: "z1"}, ()),
    ],
)
def test_labels_tell_a_nodes_rack_and_zone(
    levels: list[str] | None, labels: dict[str, str], want: object
) -> None:
    config = OperatorConfig.model_validate(
        {} if levels is None else {"scheduling": {"topology": {"levels": levels}}}
    )
    state = a_view(gpu_nodes=[a_gpu_node("n1")], nodes=[a_node("n1", labels=labels)])
    node = scheduler_node(
        state.gpu_nodes["n1"],
        state,
        {},
        config.lane_rules(),
        config.active_percent,
        config.scheduling.topology.levels,
        first_reporters(state.gpu_nodes.values()),
        {},
    )
    assert node.domains == want
