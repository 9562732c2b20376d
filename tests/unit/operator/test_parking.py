"""Making way without ending, as far as one cycle decides it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from laneway.api.orders import Order, PodOrder
from laneway.api.training_job import ProfileStatus
from laneway.operator import parking, transitions
from laneway.operator.cache import ClusterView
from laneway.operator.config import OperatorConfig, SchedulingConfig
from laneway.operator.node_orders import order_statements
from laneway.operator.records.gpu_node_record import parse_gpu_node
from laneway.operator.records.job_record import JobRecord
from laneway.operator.records.priority_class import PriorityClassRecord
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.sessions import index_sessions
from laneway.scheduling import Depth, JobState

from tests.unit.operator.builders import (
    GIB,
    NOW,
    PATIENCE,
    JobBuilder,
    a_gpu_node,
    a_job,
    a_pod,
    a_session,
    a_view,
    advanced,
    condition_of,
    decided,
    statement_of,
)

URGENT = PriorityClassRecord("urgent", 10, is_default=False)
CONFIG = OperatorConfig(scheduling=SchedulingConfig(active_percent=100))


def told(depth: Depth, at: float = NOW - 5) -> JobBuilder:
    """A running job that was told to make way for ns/new."""
    job = a_job("old").placed("n1").running()
    return job.after(
        transitions.told_to_park, depth, "HigherPriority", "It makes way for ns/new.", at, "ns/new"
    )


def seen(job: JobRecord, pod: WorkerPod, state: str, **figures: Any) -> ClusterView:
    """What its node says of its worker."""
    node = a_gpu_node("n1", sessions={0: [a_session(pod, state=state, **figures)]})
    return a_view([job], [pod], [node])


@pytest.mark.parametrize(
    ("depth", "state", "want"),
    [
        (Depth.PAUSE, "Holding", JobState.PAUSING),
        (Depth.PAUSE, "Paused", JobState.PAUSED),
        (Depth.PAUSE, "Offloaded", JobState.PAUSED),
        (Depth.OFFLOAD, "Paused", JobState.OFFLOADING),
        (Depth.OFFLOAD, "Offloaded", JobState.OFFLOADED),
    ],
)
def test_a_job_stands_aside_when_its_node_says_so_and_not_before(
    depth: Depth, state: str, want: JobState
) -> None:
    job = told(depth).record
    pod = a_pod(job).running().record
    standing = advanced(job, pod, view=seen(job, pod, state))
    assert standing.state is want
    done = want in (JobState.PAUSED, JobState.OFFLOADED)
    assert condition_of(standing.job.status, "Running")[0] == ("False" if done else "True")
    assert (standing.job.status.service_counted_at is None) is done, "who stands aside is not served"
    assert condition_of(standing.job.status, "Placed")[0] == "True"


def test_a_gang_has_stopped_when_all_of_its_workers_have() -> None:
    job = a_job("old").gang(2).placed("n1", "n1").running()
    record = job.after(transitions.told_to_park, Depth.PAUSE, "HigherQueue", "why", NOW - 1, "ns/new").record
    pods = [a_pod(record, rank).running().record for rank in (0, 1)]
    sessions = {rank: [a_session(pods[rank], state=("Paused", "Waiting")[rank])] for rank in (0, 1)}
    view = a_view([record], pods, [a_gpu_node("n1", sessions=sessions)])
    assert advanced(record, *pods, view=view).state is JobState.PAUSING


@pytest.mark.parametrize(
    ("since", "reached", "word"),
    [
        (NOW - PATIENCE.park_seconds, None, "had not 60 s later: process 7 is stuck"),
        (NOW - 5000, NOW - PATIENCE.parked_seconds, "has stood aside for 1800 s"),
    ],
)
def test_it_ends_instead_when_the_time_is_over(since: float, reached: float | None, word: str) -> None:
    builder = told(Depth.PAUSE, at=since)
    if reached is not None:
        builder = builder.after(transitions.parked, reached)
    job = builder.record
    pod = a_pod(job).running().record
    state = "Holding" if reached is None else "Paused"
    standing = advanced(job, pod, view=seen(job, pod, state, message="process 7 is stuck"))
    status = standing.job.status
    assert condition_of(status, "Placed") == ("False", "Preempted")
    assert condition_of(status, "Preempted") == ("True", "HigherPriority")
    assert word in next(each.message.lower() for each in status.conditions if each.type == "Preempted")
    assert status.preemptions == 1, "it made way once"
    assert status.preemption is not None
    assert (status.preemption.depth, status.preemption.beneficiary) == ("Evict", "ns/new")
    assert standing.doomed == standing.yielding == (pod,)


def test_who_is_suspended_while_it_stands_aside_makes_way_for_nobody_any_more() -> None:
    job = told(Depth.PAUSE).spec(suspend=True).after(transitions.parked, NOW - 2).record
    pod = a_pod(job).running().record
    standing = advanced(job, pod)
    assert condition_of(standing.job.status, "Placed") == ("False", "Suspended")
    assert condition_of(standing.job.status, "Preempted") == ("False", "Suspended")
    assert standing.job.status.preemption is None


def test_who_ends_while_it_stands_aside_has_ended() -> None:
    job = told(Depth.PAUSE).after(transitions.parked, NOW - 2).record
    pod = a_pod(job).ended().record
    status = advanced(job, pod).job.status
    assert condition_of(status, "Succeeded")[0] == "True"
    assert condition_of(status, "Preempted") == ("False", "Finished")
    assert status.preemption is None


@pytest.mark.parametrize(
    ("state", "want"),
    [("Waiting", True), ("Holding", True), ("Allocated", False), ("Lost", False), (None, False)],
)
def test_only_a_worker_whose_client_answers_can_stop_and_stay(state: str | None, want: bool) -> None:
    job = a_job("old").placed("n1").running().record
    pod = a_pod(job).running().record
    nodes = [] if state is None else seen(job, pod, state).gpu_nodes
    assert parking.can_park([pod], index_sessions(nodes)) is want


@pytest.mark.parametrize(
    ("state", "since", "want"),
    [
        ("Paused", NOW - 5, True),
        ("Offloaded", NOW - 5, True),
        ("Waiting", NOW - 5, False),
        ("Paused", NOW - 3600, False),
    ],
)
def test_who_goes_on_makes_way_for_nobody_before_its_nodes_say_that_it_does(
    state: str, since: float, want: bool
) -> None:
    """What they say is the answer to the order before: a new one would seem to have been followed at once."""
    job = a_job("old").placed("n1").running(since).record
    pod = a_pod(job).running().record
    standing = advanced(job, pod, view=seen(job, pod, state))
    assert standing.state is JobState.RUNNING
    assert standing.coming_back is want


def _two(job: JobRecord, *sessions: dict[str, Any]) -> ClusterView:
    """A running job, and one that goes before it, on a GPU that offers twice as much as may take turns."""
    node = a_gpu_node("n1", gpus=1, sessions={0: sessions})
    node = replace(node, gpus=tuple(gpu.model_copy(update={"allocatable_percent": 200}) for gpu in node.gpus))
    new = a_job("new").spec(priorityClassName="urgent").visited().record
    pod = a_pod(job).running().record
    return a_view([job, new], [pod], [node], priority_classes=[URGENT])


def test_the_plan_has_a_job_pause_and_both_are_told() -> None:
    known = ProfileStatus(persistent_bytes=10 * GIB, ephemeral_bytes=GIB)
    job = a_job("old").placed("n1").running(since=NOW - 1000).status(profile=known).record
    pod = a_pod(job).running().record
    session = a_session(pod, profiled=True, persistentBytes=10 * GIB, ephemeralBytes=GIB, sharePercent=100)
    view = _two(job, session)
    decision = decided(view, config=CONFIG)
    old, new = statement_of(decision, "old"), statement_of(decision, "new")
    assert old is not None
    assert new is not None
    assert old.status.preemption is not None
    assert (old.status.preemption.depth, old.status.preemption.beneficiary) == ("Pause", "ns/new")
    assert not old.doomed
    assert condition_of(old.status, "Running")[0] == "True", "until its node says that it has stopped"
    assert old.status.preemption.cost == "200m"
    (preempted,) = old.happenings
    assert preempted.reason == "Preempted"
    assert preempted.message.endswith("It is told to pause, which costs it about 0.2 s.")
    (preempting,) = [each for each in new.happenings if each.reason == "Preempting"]
    assert "ns/old pauses (HigherPriority, at a cost of about 0.2 s)" in preempting.message
    assert old.yielding == (pod,), "it is looked at anew before anything is written"
    assert new.awaits == {"ns/old"}, "and only then the other is told of it"
    assert not decision.orders, "why it is ordered is written first"
    jobs = {each.uid: each for each in view.jobs} | {
        each.job.uid: each.job.with_status(each.status) for each in (old, new)
    }
    (orders,) = decided(replace(view, jobs=tuple(jobs.values())), config=CONFIG).orders
    assert [(order.pod_uid, order.order) for order in orders.orders] == [(pod.uid, "Pause")]
    assert orders.jobs == {job.uid}


def test_who_is_paused_and_is_to_go_further_stands_aside_all_the_while() -> None:
    paused = told(Depth.PAUSE).after(transitions.parked, NOW - 3)
    builder = paused.after(
        transitions.told_to_park,
        Depth.OFFLOAD,
        "HigherPriority",
        "It makes way for ns/next.",
        NOW - 1,
        "ns/next",
    )
    job = builder.record
    assert job.status.preemptions == 1, "it makes way once"
    assert condition_of(job.status, "Running") == ("False", "Paused")
    pod = a_pod(job).running().record
    moving = advanced(job, pod, view=seen(job, pod, "Paused"))
    assert (moving.state, moving.parkable) == (JobState.OFFLOADING, False)
    moved = advanced(job, pod, view=seen(job, pod, "Offloaded"))
    assert moved.state is JobState.OFFLOADED
    assert condition_of(moved.job.status, "Running") == ("False", "Offloaded")
    before, after = paused.record.status.waiting, moved.job.status.waiting
    assert before is not None
    assert after is not None
    assert after.since == before.since, "it has waited since it was paused"


@pytest.mark.parametrize(("state", "want"), [("Paused", True), ("Lost", False)])
def test_a_paused_job_can_go_further_while_its_client_answers(state: str, want: bool) -> None:
    job = told(Depth.PAUSE).after(transitions.parked, NOW - 3).record
    pod = a_pod(job).running().record
    assert advanced(job, pod, view=seen(job, pod, state)).parkable is want


def test_who_has_no_client_ends() -> None:
    job = a_job("old").placed("n1").running(since=NOW - 1000).record
    decision = decided(_two(job), config=CONFIG)
    old = statement_of(decision, "old")
    assert old is not None
    assert old.doomed
    assert not decision.orders


class TestOrders:
    job = told(Depth.PAUSE).record
    pod = a_pod(job).running().record
    order = PodOrder(podUID=pod.uid, order=Order.PAUSE, reason="ns/old: It makes way for ns/new.")

    def view(self, own: tuple[PodOrder, ...] = (), others: frozenset[str] = frozenset()) -> ClusterView:
        node = replace(a_gpu_node("n1"), own_orders=own, others_orders=others)
        return a_view([self.job], [self.pod], [node])

    def statements(self, view: ClusterView, job: JobRecord | None = None) -> list[list[str]]:
        job = job or self.job
        standing = replace(advanced(job, self.pod), job=job)
        return [[each.pod_uid for each in found.orders] for found in order_statements(view, [standing])]

    def test_what_was_ordered_is_not_ordered_again(self) -> None:
        assert self.statements(self.view()) == [[self.pod.uid]]
        assert self.statements(self.view(own=(self.order,))) == []

    def test_somebody_elses_order_stands(self) -> None:
        assert self.statements(self.view(others=frozenset({self.pod.uid}))) == []

    def test_it_is_taken_back_when_the_job_goes_on(self) -> None:
        gone_on = JobBuilder("old").placed("n1").running().record
        assert self.statements(self.view(own=(self.order,)), gone_on) == [[]]

    def test_it_is_not_taken_back_before_the_status_says_that_the_job_goes_on(self) -> None:
        gone_on = JobBuilder("old").placed("n1").running().record
        standing = replace(advanced(gone_on, self.pod), job=gone_on)
        (found,) = order_statements(self.view(own=(self.order,)), [standing])
        assert found.jobs == {self.job.uid}

    def test_it_is_taken_back_later_if_that_could_not_be_written_at_once(self) -> None:
        gone_on = JobBuilder("old").placed("n1").running().record
        view = replace(self.view(own=(self.order,)), jobs=(gone_on,))
        assert [each.orders for each in order_statements(view, [])] == [()]

    def test_it_stays_for_a_worker_that_is_told_to_end(self) -> None:
        evicted = told(Depth.PAUSE).after(transitions.preempted, "HigherPriority", "why", NOW).record
        assert self.statements(self.view(own=(self.order,)), evicted) == []

    def test_it_goes_with_a_pod_that_is_gone(self) -> None:
        view = replace(self.view(own=(self.order,)), pods={})
        assert self.statements(view) == [[]]


def test_own_orders_are_told_from_others_by_their_manager() -> None:
    def entry(manager: str, uid: str) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "f:spec": {"f:orders": {f'k:{{"podUID":"{uid}"}}': {".": {}, "f:order": {}}}}
        }
        return {"manager": manager, "operation": "Apply", "fieldsV1": fields}

    metadata = {
        "name": "n1",
        "managedFields": [entry("laneway-operator", "a"), entry("laneway-cli", "b"), {"manager": "x"}],
    }
    orders = [{"podUID": "a", "order": "Pause"}, {"podUID": "b", "order": "Offload"}]
    record = parse_gpu_node({"metadata": metadata, "spec": {"orders": orders}})
    assert [each.pod_uid for each in record.own_orders] == ["a"]
    assert record.others_orders == {"b"}
