"""Preemption in place, as one cycle decides it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from laneway.api.orders import Order, PodOrder
from laneway.api.training_job_status import ProfileStatus
from laneway.operator.cycle.job_cache import JobCache
from laneway.operator.cycle.node_orders import NodeWrite, node_writes
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.lifecycle import pausing, transitions
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.gpu_node_record import parse_gpu_node
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.priority_class import PriorityClassRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import JobState, PreemptionAction
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import (
    GIB,
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
    reconciled_job_of,
    write_of,
)

URGENT = PriorityClassRecord("urgent", 10, is_default=False)
CONFIG = OperatorConfig(sharing="off")  # on nodes that offer more, for paused jobs


def asked(depth: PreemptionAction, at: float = NOW - 5) -> JobBuilder:
    """A running job that was told to pause or offload for ns/new."""
    job = a_job("old").placed("n1").running()
    return job.after(
        transitions.asked_to_pause, depth, "HigherPriority", "Preempted by ns/new.", at, "ns/new"
    )


def seen(job: JobRecord, pod: WorkerPod, state: str, **figures: Any) -> ClusterState:
    """Its node's report of its worker."""
    node = a_gpu_node("n1", sessions={0: [a_session(pod, state=state, **figures)]})
    return a_view([job], [pod], [node])


@pytest.mark.parametrize(
    ("depth", "state", "want"),
    [
        (PreemptionAction.PAUSE, "Holding", JobState.PAUSING),
        (PreemptionAction.PAUSE, "Paused", JobState.PAUSED),
        (PreemptionAction.PAUSE, "Offloaded", JobState.PAUSED),
        (PreemptionAction.OFFLOAD, "Paused", JobState.OFFLOADING),
        (PreemptionAction.OFFLOAD, "Offloaded", JobState.OFFLOADED),
    ],
)
def test_a_job_is_paused_when_its_node_says_so_and_not_before(
    depth: PreemptionAction, state: str, want: JobState
) -> None:
    job = asked(depth).record
    pod = a_pod(job).running().record
    reconciled = reconciled_job_of(job, pod, view=seen(job, pod, state))
    assert reconciled.state is want
    done = want in (JobState.PAUSED, JobState.OFFLOADED)
    assert condition_of(reconciled.job.status, "Running")[0] == ("False" if done else "True")
    assert (reconciled.job.status.service_counted_at is None) is done, "a paused job is not served"
    assert condition_of(reconciled.job.status, "Placed")[0] == "True"


def test_a_gang_has_stopped_when_all_of_its_workers_have() -> None:
    job = a_job("old").gang(2).placed("n1", "n1").running()
    record = job.after(
        transitions.asked_to_pause, PreemptionAction.PAUSE, "HigherQueue", "why", NOW - 1, "ns/new"
    ).record
    pods = [a_pod(record, rank).running().record for rank in (0, 1)]
    sessions = {rank: [a_session(pods[rank], state=("Paused", "Waiting")[rank])] for rank in (0, 1)}
    view = a_view([record], pods, [a_gpu_node("n1", sessions=sessions)])
    assert reconciled_job_of(record, *pods, view=view).state is JobState.PAUSING


@pytest.mark.parametrize(
    ("since", "reached", "word"),
    [
        (NOW - TIMEOUTS.pause_seconds, None, "had not 60 s later: process 7 is stuck"),
        (NOW - 5000, NOW - TIMEOUTS.paused_seconds, "was paused for 1800 s"),
    ],
)
def test_it_ends_instead_when_the_time_is_over(since: float, reached: float | None, word: str) -> None:
    builder = asked(PreemptionAction.PAUSE, at=since)
    if reached is not None:
        builder = builder.after(transitions.paused, reached)
    job = builder.record
    pod = a_pod(job).running().record
    state = "Holding" if reached is None else "Paused"
    reconciled = reconciled_job_of(job, pod, view=seen(job, pod, state, message="process 7 is stuck"))
    status = reconciled.job.status
    assert condition_of(status, "Placed") == ("False", "Preempted")
    assert condition_of(status, "Preempted") == ("True", "HigherPriority")
    assert word in next(each.message.lower() for each in status.conditions if each.type == "Preempted")
    assert status.preemptions == 1, "it was preempted once"
    assert status.preemption is not None
    assert (status.preemption.action, status.preemption.preemptor) == ("Evict", "ns/new")
    assert reconciled.pods_to_delete == reconciled.victims == (pod,)


def test_a_job_suspended_while_paused_is_no_longer_preempted() -> None:
    job = asked(PreemptionAction.PAUSE).spec(suspend=True).after(transitions.paused, NOW - 2).record
    pod = a_pod(job).running().record
    reconciled = reconciled_job_of(job, pod)
    assert condition_of(reconciled.job.status, "Placed") == ("False", "Suspended")
    assert condition_of(reconciled.job.status, "Preempted") == ("False", "Suspended")
    assert reconciled.job.status.preemption is None
    (event,) = reconciled.events
    assert event.message == (
        "Suspended by spec.suspend while preempted. Its workers have their grace period to save a checkpoint, and end."
    )


def test_a_job_that_ends_while_paused_has_ended() -> None:
    job = asked(PreemptionAction.PAUSE).after(transitions.paused, NOW - 2).record
    pod = a_pod(job).ended().record
    status = reconciled_job_of(job, pod).job.status
    assert condition_of(status, "Complete")[0] == "True"
    assert condition_of(status, "Preempted") == ("False", "Finished")
    assert status.preemption is None


@pytest.mark.parametrize(
    ("state", "want"),
    [("Waiting", True), ("Holding", True), ("Allocated", False), ("Lost", False), (None, False)],
)
def test_only_a_worker_whose_client_answers_can_stop_and_stay(state: str | None, want: bool) -> None:
    job = a_job("old").placed("n1").running().record
    pod = a_pod(job).running().record
    sessions = a_view().sessions if state is None else seen(job, pod, state).sessions
    assert pausing.can_pause([pod], sessions) is want


@pytest.mark.parametrize(
    ("state", "on_host", "since", "want"),
    [
        ("Paused", 0, NOW - 5, True),
        ("Offloaded", GIB, NOW - 5, True),
        ("Waiting", GIB, NOW - 5, True),
        ("Waiting", 0, NOW - 5, False),
        ("Paused", 0, NOW - 3600, False),
        ("Waiting", GIB, NOW - 3600, False),
    ],
)
def test_a_resuming_job_is_not_preempted_before_its_nodes_report_it(
    state: str, on_host: int, since: float, want: bool
) -> None:
    """The nodes still report the result of the previous order, so a new order would seem to be followed at once."""
    job = a_job("old").placed("n1").running(since).record
    pod = a_pod(job).running().record
    reconciled = reconciled_job_of(job, pod, view=seen(job, pod, state, offloadedBytes=on_host))
    assert reconciled.state is JobState.RUNNING
    assert reconciled.coming_back is want


def _two(job: JobRecord, *sessions: dict[str, Any]) -> ClusterState:
    """A running job, and one that goes before it, on a GPU that offers twice as much as may take turns."""
    node = a_gpu_node("n1", gpus=1, sessions={0: sessions})
    node = replace(node, gpus=tuple(gpu.model_copy(update={"allocatable_percent": 200}) for gpu in node.gpus))
    new = a_job("new").spec(priorityClassName="urgent").visited().record
    pod = a_pod(job).running().record
    return a_view([job, new], [pod], [node], priority_classes=[URGENT])


def test_the_plan_has_a_job_pause_and_both_are_told() -> None:
    known = ProfileStatus(persistent_bytes=10 * GIB, ephemeral_bytes=GIB)
    job = a_job("old").placed("n1").running(since=NOW - 1000).ran(known).record
    pod = a_pod(job).running().record
    session = a_session(pod, profiled=True, persistentBytes=10 * GIB, ephemeralBytes=GIB, sharePercent=100)
    view = _two(job, session)
    decision = decided(view, config=CONFIG)
    old, new = write_of(decision, "old"), write_of(decision, "new")
    assert old is not None
    assert new is not None
    assert old.status.preemption is not None
    assert (old.status.preemption.action, old.status.preemption.preemptor) == ("Pause", "ns/new")
    assert not old.after.pods_to_delete
    assert condition_of(old.status, "Running")[0] == "True", "until its node says that it has stopped"
    assert old.status.preemption.cost_milliseconds == 200
    (preempted,) = old.after.events
    assert preempted.reason == "Preempted"
    assert preempted.message.endswith("The job is told to pause; expected cost 0.2 s.")
    (preempting,) = [each for each in new.after.events if each.reason == "Preempting"]
    assert "ns/old is paused (HigherPriority, expected cost 0.2 s)" in preempting.message
    assert old.after.victims == (pod,), "it is read again before anything is written"
    assert new.after.awaits == {"ns/old"}, "and only then the other is told of it"
    assert not decision.orders, "why it is ordered is written first"
    for each in (old, new):
        view.note_job(each.job, each.job.with_status(each.status))
    (orders,) = decided(view, config=CONFIG).orders
    assert [(order.pod_uid, order.order) for order in orders.orders] == [(pod.uid, "Pause")]
    assert orders.jobs == {job.uid}


def test_a_paused_job_that_is_to_offload_stays_paused() -> None:
    paused = asked(PreemptionAction.PAUSE).after(transitions.paused, NOW - 3)
    builder = paused.after(
        transitions.asked_to_pause,
        PreemptionAction.OFFLOAD,
        "HigherPriority",
        "Preempted by ns/next.",
        NOW - 1,
        "ns/next",
    )
    job = builder.record
    assert job.status.preemptions == 1, "it is preempted once"
    assert condition_of(job.status, "Running") == ("False", "Paused")
    pod = a_pod(job).running().record
    moving = reconciled_job_of(job, pod, view=seen(job, pod, "Paused"))
    assert (moving.state, moving.pausable) == (JobState.OFFLOADING, False)
    moved = reconciled_job_of(job, pod, view=seen(job, pod, "Offloaded"))
    assert moved.state is JobState.OFFLOADED
    assert condition_of(moved.job.status, "Running") == ("False", "Offloaded")
    before, after = paused.record.status.waiting, moved.job.status.waiting
    assert before is not None
    assert after is not None
    assert after.since == before.since, "it has waited since it was paused"


@pytest.mark.parametrize(("state", "want"), [("Paused", True), ("Lost", False)])
def test_a_paused_job_can_go_further_while_its_client_answers(state: str, want: bool) -> None:
    job = asked(PreemptionAction.PAUSE).after(transitions.paused, NOW - 3).record
    pod = a_pod(job).running().record
    assert reconciled_job_of(job, pod, view=seen(job, pod, state)).pausable is want


def test_who_has_no_client_ends() -> None:
    job = a_job("old").placed("n1").running(since=NOW - 1000).record
    decision = decided(_two(job), config=CONFIG)
    old = write_of(decision, "old")
    assert old is not None
    assert old.after.pods_to_delete
    assert not decision.orders


class TestOrders:
    job = asked(PreemptionAction.PAUSE).record
    pod = a_pod(job).running().record
    order = PodOrder(podUID=pod.uid, order=Order.PAUSE, reason="ns/old: Preempted by ns/new.")

    def view(self, own: tuple[PodOrder, ...] = (), others: frozenset[str] = frozenset()) -> ClusterState:
        node = replace(a_gpu_node("n1"), own_orders=own, others_orders=others)
        return a_view([self.job], [self.pod], [node])

    def found(self, view: ClusterState, job: JobRecord | None = None) -> tuple[NodeWrite, ...]:
        """The orders to write for the given desired status."""
        cache = JobCache(TIMEOUTS)
        cache.update(view, view.everything(), WriteHistory({}, {}), (), NOW)
        if job is not None:
            cache.assume(job.uid, replace(cache.jobs[job.uid], job=job))
        return node_writes(view, cache)

    def writes(self, view: ClusterState, job: JobRecord | None = None) -> list[list[str]]:
        return [[each.pod_uid for each in found.orders] for found in self.found(view, job)]

    def test_what_was_ordered_is_not_ordered_again(self) -> None:
        assert self.writes(self.view()) == [[self.pod.uid]]
        assert self.writes(self.view(own=(self.order,))) == []

    def test_somebody_elses_order_stands(self) -> None:
        assert self.writes(self.view(others=frozenset({self.pod.uid}))) == []

    def test_it_is_taken_back_when_the_job_goes_on(self) -> None:
        gone_on = JobBuilder("old").placed("n1").running().record
        assert self.writes(self.view(own=(self.order,)), gone_on) == [[]]

    def test_it_is_not_taken_back_before_the_status_says_that_the_job_goes_on(self) -> None:
        gone_on = JobBuilder("old").placed("n1").running().record
        (found,) = self.found(self.view(own=(self.order,)), gone_on)
        assert found.jobs == {self.job.uid}

    def test_it_is_taken_back_later_if_that_could_not_be_written_at_once(self) -> None:
        gone_on = JobBuilder("old").placed("n1").running().record
        view = self.view(own=(self.order,))
        view.note_job(self.job, gone_on)
        assert [each.orders for each in self.found(view)] == [()]

    def test_it_stays_for_a_worker_that_is_told_to_end(self) -> None:
        evicted = (
            asked(PreemptionAction.PAUSE).after(transitions.preempted, "HigherPriority", "why", NOW).record
        )
        assert self.writes(self.view(own=(self.order,)), evicted) == []

    def test_it_goes_with_a_pod_that_is_gone(self) -> None:
        view = self.view(own=(self.order,))
        view.note_pod(self.pod, None)
        assert self.writes(view) == [[]]


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
