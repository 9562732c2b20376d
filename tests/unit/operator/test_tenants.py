"""Each share of a GPU counts exactly once, whatever happened before and in whichever order it became known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from laneway.api.attempt_status import AttemptOutcome
from laneway.api.job_names import sentence_in_full
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.lifecycle import transitions
from laneway.operator.state.cluster_state import ClusterState
from laneway.scheduling import ClusterSnapshot, WaitingCode
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import (
    NOW,
    SchedulerView,
    a_gpu_node,
    a_job,
    a_node,
    a_pod,
    a_session,
    a_view,
    reconciled_job_of,
    snapshot_of,
)

Step = Callable[[ClusterState], object]

JOB = a_job("g").gang(2).placed("n1", "n2").running().record
PODS = [a_pod(JOB, rank).running().record for rank in (0, 1)]
ENDING = [a_pod(JOB, rank).running().deleting().record for rank in (0, 1)]
SESSIONS = [a_session(pod, job="g", rank=rank) for rank, pod in enumerate(PODS)]
N1 = a_gpu_node("n1", 2, sessions={0: [SESSIONS[0]]})
N2 = a_gpu_node("n2", 2, sessions={0: [SESSIONS[1]]})
EMPTY = a_gpu_node("n1", 2)
ELSEWHERE = a_gpu_node("n1", 2, sessions={1: [SESSIONS[0]]})
"""The worker is on another GPU than its placement says."""


def a_gang_runs(state: ClusterState) -> None:
    for gpu_node in (N1, N2):
        state.note_gpu_node(None, gpu_node)
        state.note_node(None, a_node(gpu_node.name))
    state.note_job(None, JOB)
    for pod in PODS:
        state.note_pod(None, pod)


def only_a_worker_is_there(state: ClusterState) -> None:
    state.note_gpu_node(None, EMPTY)
    state.note_node(None, a_node("n1"))
    state.note_pod(None, PODS[0])


def a_worker_without_a_job_is_on_another_gpu(state: ClusterState) -> None:
    only_a_worker_is_there(state)
    state.note_gpu_node(EMPTY, ELSEWHERE)


def the_job_is_deleted(state: ClusterState) -> None:
    state.note_job(JOB, None)


def the_pods_are_told_to_end(state: ClusterState) -> None:
    for pod, ending in zip(PODS, ENDING, strict=True):
        state.note_pod(pod, ending)


def the_pods_vanish(state: ClusterState) -> None:
    for uid in [pod.uid for pod in state.pods[JOB.uid]]:
        state.note_pod(state.pod_by_uid[uid], None)


def a_pod_vanishes(state: ClusterState) -> None:
    state.note_pod(state.pods[JOB.uid][0], None)


STORIES: dict[str, tuple[Step, ...]] = {
    "its job is deleted, then its pods vanish": (a_gang_runs, the_job_is_deleted, the_pods_vanish),
    "its pods end before they vanish": (
        a_gang_runs,
        the_job_is_deleted,
        the_pods_are_told_to_end,
        the_pods_vanish,
    ),
    "its pods vanish one by one, then its job, then its session": (
        a_gang_runs,
        a_pod_vanishes,
        a_pod_vanishes,
        the_job_is_deleted,
        lambda state: state.note_gpu_node(N1, EMPTY),
    ),
    "a node of it vanishes before it does": (
        a_gang_runs,
        lambda state: state.note_gpu_node(N2, None),
        the_job_is_deleted,
        the_pods_vanish,
    ),
    "a worker of it is on another GPU": (
        a_gang_runs,
        lambda state: state.note_gpu_node(N1, ELSEWHERE),
        a_pod_vanishes,
        the_job_is_deleted,
    ),
    "an orphan vanishes before it is reported": (only_a_worker_is_there, a_pod_vanishes),
    "an orphan on another GPU vanishes": (a_worker_without_a_job_is_on_another_gpu, a_pod_vanishes),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_a_kept_view_counts_the_same_tenants_as_a_new_one(story: tuple[Step, ...]) -> None:
    state, kept = ClusterState(), SchedulerView()
    for step in story:
        step(state)
        delta = state.take_delta()
        assert counted(kept.update(state, delta)) == counted(snapshot_of(state)), step.__name__


def test_a_session_without_a_uid_is_not_that_of_its_next_pod_elsewhere() -> None:
    again = a_job("g").placed("n1").placed("n2").running().record
    old = a_pod(a_job("g").placed("n1").record).running().record
    left = a_gpu_node("n1", 1, sessions={0: [a_session(old, job="g", rank=0, podUID="")]})
    state, kept = a_view([again], gpu_nodes=[left, a_gpu_node("n2", 1)]), SchedulerView()
    kept.update(state, state.everything())
    state.take_delta()
    state.note_pod(None, a_pod(again).running().record)
    assert counted(kept.update(state, state.take_delta())) == counted(snapshot_of(state))


class TestAMachineThatIsRegisteredUnderAnotherName:
    def test_a_gang_that_cannot_be_planned_keeps_its_gpu_there(self) -> None:
        """The node of its other worker is gone."""
        moved = replace(a_gpu_node("n1", 1, sessions={0: [SESSIONS[0]]}), name="new")
        nodes = [a_node(name) for name in ("n1", "n2", "new")]
        snapshot = snapshot_of(a_view([JOB], PODS, [moved], nodes=nodes))
        assert snapshot.jobs == ()
        assert foreign(snapshot) == {"n1/0": [("ns/g/0", 100)]}

    def test_the_session_of_a_deleted_worker_ends_under_either_name(self) -> None:
        n1 = a_gpu_node("n1", 1, sessions={0: [SESSIONS[0]]})
        new = replace(n1, name="new")
        state, cycle = a_view(gpu_nodes=[n1, new]), Cycle(OperatorConfig())
        history = WriteHistory({}, {})
        cycle.run(state, history, NOW)
        state.note_gpu_node(n1, None)
        cycle.run(state, history, NOW + 1)
        state.note_gpu_node(new, a_gpu_node("new", 1))
        assert not cycle.run(state, history, NOW + 2).problem


class TestAWorkerOnAnotherGPUThanPlanned:
    """Its placement was corrected. Then its agent restarts, and does not report its session for a moment."""

    def test_a_swapped_gang_counts_once(self) -> None:
        job = a_job("g").gang(2).share(50).placed("n1", "n1", percent=50).running().record
        pods = [a_pod(job, rank).running().record for rank in (0, 1)]
        both = a_gpu_node("n1", 2, sessions={1: [a_session(pods[0])], 0: [a_session(pods[1])]})
        swapped = reconciled_job_of(job, *pods, view=a_view([job], pods, [both])).job
        one = a_gpu_node("n1", 2, sessions={0: [a_session(pods[1])]})
        assert foreign(snapshot_of(a_view([swapped], pods, [one]))) == {}

    def test_a_job_whose_correction_is_in_flight_counts_once(self) -> None:
        job = a_job("g").share(50).placed("n1", percent=50).running().record
        pod = a_pod(job).running().record
        there = a_gpu_node("n1", 2, sessions={1: [a_session(pod)]})
        silent = a_gpu_node("n1", 2)
        state, cycle, history = a_view([job], [pod], [there]), Cycle(OperatorConfig()), WriteHistory({}, {})
        cycle.run(state, history, NOW)
        state.note_gpu_node(there, silent)
        state.note_job(None, a_job("next").share(50).visited().record)
        state.note_job(None, a_job("last").gang(2).share(50).visited().record)
        result = cycle.run(state, history, NOW + 1, in_flight={job.uid})
        assert {"ns/next", "ns/last"} == result.decision.starts.keys()


def foreign(snapshot: ClusterSnapshot) -> dict[str, list[tuple[str, int]]]:
    """By GPU: its foreign tenants, each with its percent."""
    return {
        gpu.uuid: [(tenant.key, tenant.share_percent) for tenant in gpu.foreign]
        for node in snapshot.nodes
        for gpu in node.gpus
        if gpu.foreign
    }


def test_a_job_waits_for_the_gpus_of_a_deleted_job_whose_pods_vanished_at_once() -> None:
    state = a_view([a_job("next").gang(4).visited().record])
    a_gang_runs(state)
    cycle = Cycle(OperatorConfig())
    history = WriteHistory({}, {})
    cycle.run(state, history, NOW)
    the_job_is_deleted(state)
    cycle.run(state, history, NOW + 1)
    the_pods_vanish(state)
    waits = cycle.run(state, history, NOW + 2).waiting["ns/next"]
    assert waits.code == WaitingCode.AWAITING_RELEASE
    assert sentence_in_full(waits.message) == "Waiting for ns/g-0 and ns/g-1 to release their GPUs."
    assert waits.blockers == ("ns/g-0", "ns/g-1")


def test_a_starting_job_whose_worker_is_reported_already_counts_once() -> None:
    """Its writes are still in flight, so the job itself counts as what is being written."""
    first = a_job("first").share(40).visited()
    state = a_view([first.record], gpu_nodes=[a_gpu_node("n1", 1)])
    cycle = Cycle(OperatorConfig())
    history = WriteHistory({}, {})
    (write,) = cycle.run(state, history, NOW).writes
    placed = first.record.with_status(write.status)
    pod = a_pod(placed).running().record
    state.note_job(first.record, placed)
    state.note_pod(None, pod)
    session = a_session(pod, job="first", rank=0)
    state.note_gpu_node(state.gpu_nodes["n1"], a_gpu_node("n1", 1, sessions={0: [session]}))
    state.note_job(None, a_job("second").share(40).visited().record)
    result = cycle.run(state, history, NOW + 1, in_flight={first.record.uid})
    assert list(result.decision.starts) == ["ns/second"], result.waiting


def test_a_job_waits_for_the_gpus_of_a_job_that_is_deleted_while_its_start_is_in_flight() -> None:
    """Its pod vanishes in the same moment, and its node still reports the session."""
    first = a_job("first").visited()
    state = a_view([first.record], gpu_nodes=[a_gpu_node("n1", 1)])
    cycle = Cycle(OperatorConfig())
    history = WriteHistory({}, {})
    (write,) = cycle.run(state, history, NOW).writes
    in_flight = {first.record.uid}
    placed = first.record.with_status(write.status)
    pod = a_pod(placed).running().record
    state.note_job(first.record, placed)
    state.note_pod(None, pod)
    session = a_session(pod, job="first", rank=0)
    state.note_gpu_node(state.gpu_nodes["n1"], a_gpu_node("n1", 1, sessions={0: [session]}))
    cycle.run(state, history, NOW + 1, in_flight)
    state.note_job(placed, None)
    state.note_pod(pod, None)
    state.note_job(None, a_job("next").visited().record)
    result = cycle.run(state, history, NOW + 2, in_flight)
    assert result.waiting["ns/next"].code == WaitingCode.AWAITING_RELEASE


@pytest.mark.parametrize("story", ["two containers of a worker on one GPU", "two workers on one GPU"])
def test_a_preempted_gang_whose_sessions_share_a_gpu_against_the_plan_can_go(story: str) -> None:
    job = a_job("g").gang(2).placed("n1", "n1").running()
    pods = [a_pod(job.record, rank).running().record for rank in (0, 1)]
    on_first = [a_session(pods[0], key="a"), a_session(pods[story.startswith("two workers")], key="b")]
    node = a_gpu_node("n1", 2, sessions={0: on_first})
    evicted = job.after(
        transitions.unplaced, AttemptOutcome.PREEMPTED, "HigherQueue", "Preempted.", NOW, NOW
    ).record
    state = a_view([evicted], pods, [node])
    cycle = Cycle(OperatorConfig())
    cycle.run(state, WriteHistory({}, {}), NOW)
    for pod in pods:
        state.note_pod(pod, None)
    assert cycle.run(state, WriteHistory({}, {}), NOW + 1).problem == ""


def counted(snapshot: ClusterSnapshot) -> tuple[object, ...]:
    foreign = {
        gpu.uuid: sorted((tenant.key, tenant.share_percent) for tenant in gpu.foreign)
        for node in snapshot.nodes
        for gpu in node.gpus
    }
    return foreign, sorted((job.key, job.placement) for job in snapshot.jobs)
