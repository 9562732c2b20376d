"""What a cycle would write."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
from laneway.api.attempt_status import AttemptOutcome
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import WaitingStatus
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.reconcile import reconcile
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.priority_class import PriorityClassRecord
from laneway.scheduling import InvalidPlan, Scheduler, WaitingCode
from laneway.scheduling.config.operator_config import OperatorConfig, PolicyConfig, SchedulingConfig

from tests.unit.operator.builders import (
    NOW,
    a_gpu_node,
    a_job,
    a_node,
    a_pod,
    a_session,
    a_view,
    condition_of,
    decided,
    gauges_of,
    reconciled_job_of,
    samples_of,
    states_of,
    write_of,
)

URGENT = PriorityClassRecord("urgent", 10, is_default=False)


def test_a_new_job_is_admitted_and_placed_in_one_write_that_names_the_workers_to_make() -> None:
    view = a_view([a_job("a").gang(2).record], gpu_nodes=[a_gpu_node("n1", gpus=2)])
    write = write_of(decided(view), "a")
    assert write is not None
    assert write.writes_status
    assert [each.reason for each in write.after.events] == ["Placed"]
    assert condition_of(write.status, "Accepted") == ("True", "Valid")
    assert write.status.attempt == 1
    assert [(worker.worker, worker.node) for worker in write.creates] == [(0, "n1"), (1, "n1")]


def test_a_half_started_gang_is_completed_and_not_started_anew() -> None:
    job = a_job("a").gang(3).placed("n1", "n1", "n1").record
    pods = [a_pod(job, 0).running().record, a_pod(job, 2).record]
    write = write_of(decided(a_view([job], pods, [a_gpu_node("n1")])), "a")
    assert write is not None
    assert [worker.worker for worker in write.creates] == [1]
    assert write.status.attempt == 1


def test_a_gang_that_runs_makes_nothing() -> None:
    job = a_job("a").gang(2).placed("n1", "n1").running(since=NOW).record
    pods = [a_pod(job, rank).running(since=NOW).record for rank in (0, 1)]
    assert write_of(decided(a_view([job], pods, [a_gpu_node("n1")])), "a") is None


def test_a_job_that_does_not_fit_reports_reason_position_and_unblock() -> None:
    holder = a_job("a").placed("n1").running(since=NOW).record
    waits = [a_job(name).visited().record for name in ("b", "c")]
    view = a_view([holder, *waits], [a_pod(holder).running(since=NOW).record], [a_gpu_node("n1", gpus=1)])
    decision = decided(view)
    second = write_of(decision, "c")
    assert second is not None
    assert second.status.waiting is not None
    assert (second.status.waiting.reason, second.status.waiting.position) == ("GPUsBusy", 2)
    assert second.status.waiting.unblock
    assert condition_of(second.status, "Placed") == ("False", "GPUsBusy")
    assert second.creates == ()


def test_a_suspended_job_stops_and_that_is_no_preemption() -> None:
    job = a_job("a").spec(suspend=True).placed("n1").running().record
    pod = a_pod(job).running().record
    write = write_of(decided(a_view([job], [pod], [a_gpu_node("n1")])), "a")
    assert write is not None
    assert write.after.pods_to_delete == (pod,)
    assert write.status.preemptions == 0
    assert condition_of(write.status, "Preempted") == ("False", "NeverPreempted")
    (event,) = write.after.events
    assert (event.reason, event.message) == (
        "Suspended",
        "Suspended by spec.suspend. Its workers have their grace period to save a checkpoint, and end.",
    )


def test_a_job_that_is_suspended_before_it_has_workers_is_not_told_what_they_do() -> None:
    job = a_job("a").spec(suspend=True).placed("n1", at=NOW - 1).record
    write = write_of(decided(a_view([job], [], [a_gpu_node("n1")])), "a")
    assert write is not None
    assert [(each.reason, each.message) for each in write.after.events] == [
        ("Suspended", "Suspended by spec.suspend.")
    ]


def test_a_job_that_cannot_be_reconciled_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_for_one(job: Any, pods: Any, context: Any) -> Any:
        if job.name == "odd":
            raise KeyError("surprise")
        return reconcile(job, pods, context)

    monkeypatch.setattr("laneway.operator.cycle.job_cache.reconcile", fail_for_one)
    decision = decided(a_view([a_job("odd").record, a_job("even").record], gpu_nodes=[a_gpu_node("n1")]))
    odd, even = write_of(decision, "odd"), write_of(decision, "even")
    assert odd is not None
    assert even is not None
    assert condition_of(odd.status, "Accepted") == ("False", "NotUnderstood")
    assert even.creates


class TestRateOfStatusWrites:
    """State changes are written at once; figures and explanations at a limited rate."""

    def waiting(self, position: int) -> Any:
        job = a_job("b").visited()
        text = WaitingStatus(reason="GPUsBusy", message="m", position=position, since=format_time(NOW - 100))
        job.status(waiting=text)
        return job.after(
            lambda status: transitions.with_conditions(status, NOW - 80, ("Placed", False, "GPUsBusy", "m"))
        ).record

    def view(self, job: Any) -> Any:
        holder = a_job("a").placed("n1").running(since=NOW).record
        return a_view([holder, job], [a_pod(holder).running(since=NOW).record], [a_gpu_node("n1", gpus=1)])

    def test_a_new_position_waits_until_the_last_write_is_old_enough(self) -> None:
        view = self.view(self.waiting(position=7))
        explain_seconds = OperatorConfig().cycle.explain_seconds
        early = decided(view, written={"uid-b": NOW - explain_seconds + 1})
        assert write_of(early, "b") is None
        assert early.due_seconds == pytest.approx(NOW + 1)
        late = write_of(decided(view, written={"uid-b": NOW - explain_seconds}), "b")
        assert late is not None
        assert late.writes_status
        assert late.status.waiting is not None
        assert late.status.waiting.position == 1

    def test_another_reason_is_written_at_once(self) -> None:
        job = a_job("b").visited().record
        write = write_of(decided(self.view(job), written={"uid-b": NOW}), "b")
        assert write is not None
        assert write.writes_status

    def test_only_so_many_are_written_in_one_cycle_and_the_oldest_first(self) -> None:
        config = OperatorConfig.model_validate({"cycle": {"explanationsPerSecond": 1, "explainSeconds": 1}})
        holder = a_job("a").placed("n1").running(since=NOW).record
        jobs = []
        for name in ("b", "c"):
            record = self.waiting(position=9)
            jobs.append(a_job(name).visited().status(**dict(record.status)).record)
        view = a_view([holder, *jobs], [a_pod(holder).running(since=NOW).record], [a_gpu_node("n1", gpus=1)])
        decision = decided(view, written={"uid-b": NOW - 50, "uid-c": NOW - 60}, config=config)
        assert write_of(decision, "c") is not None
        assert write_of(decision, "b") is None

    def test_jobs_that_are_not_considered_yet_leave_the_budget_to_others(self) -> None:
        config = OperatorConfig.model_validate(
            {"cycle": {"explanationsPerSecond": 1, "explainSeconds": 1, "startsPerCycle": 1}}
        )
        jobs = [a_job(name).visited().record for name in ("a", "b", "c", "d")]
        suspended = a_job("z").spec(suspend=True).visited()
        text = WaitingStatus(reason="Suspended", message="m", position=9, since=format_time(NOW - 100))
        suspended.status(waiting=text).after(
            lambda status: transitions.with_conditions(status, NOW - 80, ("Placed", False, "Suspended", "m"))
        )
        view = a_view([*jobs, suspended.record], gpu_nodes=[a_gpu_node("n1", gpus=4)])
        decision = decided(view, written={"uid-z": NOW - 1}, config=config)
        assert decision.waiting["ns/b"].code is WaitingCode.NOT_CONSIDERED
        assert [write.job.name for write in decision.writes] == ["a", "z"]

    def test_service_alone_is_never_written_while_a_job_runs(self) -> None:
        """It follows from serviceCountedAt and the placement; the next other write brings it along."""
        job = a_job("a").placed("n1", at=NOW - 300).running(since=NOW - 60)
        pod = a_pod(job.record).running(since=NOW - 60).record
        view = a_view([job.record], [pod], [a_gpu_node("n1")])
        assert all(write_of(decided(view, now=NOW + after), "a") is None for after in (-1, 0, 600))
        suspended = job.spec(suspend=True).record
        write = write_of(decided(a_view([suspended], [pod], [a_gpu_node("n1")])), "a")
        assert write is not None
        assert write.status.attained_service_gpu_milliseconds == 60_000


def test_a_job_that_suits_no_gpu_does_not_stop_a_burst_of_starts() -> None:
    config = OperatorConfig.model_validate({"cycle": {"startsPerCycle": 1}})
    jobs = [a_job(name).visited().record for name in ("a", "b")]
    jobs.append(a_job("c").spec(gpus={"type": "Count", "count": 1, "models": ["H100"]}).visited().record)
    result = decided(a_view(jobs, gpu_nodes=[a_gpu_node("n1", gpus=4)]), config=config)
    assert result.decision.starts.keys() == {"ns/a"}


def test_how_long_it_waited_is_told_once_when_it_runs() -> None:
    job = a_job("a").placed("n1").record
    write = write_of(
        decided(a_view([job], [a_pod(job).running(since=NOW - 4).record], [a_gpu_node("n1")])), "a"
    )
    assert write is not None
    assert write.waited_seconds == pytest.approx(96), "created 100 s ago, runs since 4 s"


def test_a_promoted_job_keeps_its_service_at_promotion() -> None:
    job = (
        a_job("a")
        .visited()
        .status(attained_service_gpu_milliseconds=5_000_000, executed_milliseconds=1000)
        .record
    )
    order = PolicyConfig(policy="tiresias-las", options={"promotionFactor": 8})
    config = OperatorConfig(scheduling=SchedulingConfig(order=order))
    view = a_view([job], gpu_nodes=[a_gpu_node("n1", gpus=0)])
    write = write_of(decided(view, config=config), "a")
    assert write is not None
    assert write.status.service_at_promotion_gpu_milliseconds == 5_000_000
    assert write.status.queue == 0


def test_gauges_show_who_has_which_gpu() -> None:
    job = a_job("a").share(40).placed("n1", percent=40).running(since=NOW - 10).record
    view = a_view([job], [a_pod(job).running(since=NOW - 10).record], [a_gpu_node("n1")])
    assert gauges_of(view) == {
        ("laneway_jobs", "ns", "running"): 1,
        ("laneway_queue_jobs", "0"): 1,
        ("laneway_job_attained_service_gpu_seconds", "ns", "a"): pytest.approx(4),
        ("laneway_job_held_gpu_seconds", "ns", "a"): pytest.approx(4),
        ("laneway_job_gpu_share_ratio", "ns", "a", "n1", "n1/0"): 0.4,
        ("laneway_job_held_gpus", "ns", "a", "n1", "n1/0"): 0.4,
        ("laneway_usable_gpus", "A100"): 4,
        ("laneway_idle_gpus", "A100"): 3.6,
        ("laneway_fragmented_gpus", "A100"): 0.6,
    }


def test_gauges_count_a_job_that_waits_for_a_lane_as_waiting() -> None:
    job = a_job("a").placed("n1").running(since=NOW - 10).record
    pod = a_pod(job).running(since=NOW - 10).record
    session = a_session(pod, state="Waiting", lane=None)
    view = a_view([job], [pod], [a_gpu_node("n1", sessions={0: [session]})])
    cycle = Cycle(OperatorConfig())
    cycle.run(view, WriteHistory({}, {}), NOW)
    gauges = samples_of(cycle.gauges(NOW + 5))
    assert states_of(gauges) == {"waiting": 1}
    assert gauges["laneway_job_waiting_seconds", "ns", "a"] == 5


def test_a_suspended_job_has_no_waiting_time() -> None:
    gauges = gauges_of(a_view([a_job("a").spec(suspend=True).record], gpu_nodes=[a_gpu_node("n1")]))
    assert states_of(gauges) == {"suspended": 1}
    assert ("laneway_job_waiting_seconds", "ns", "a") not in gauges


def test_gauges_leave_out_jobs_of_another_controller() -> None:
    job = a_job("a").spec(managedBy="example.com/other").record
    assert gauges_of(a_view([job], gpu_nodes=[a_gpu_node("n1")])).keys() == {
        ("laneway_usable_gpus", "A100"),
        ("laneway_idle_gpus", "A100"),
    }


def test_gauges_add_up_the_shares_of_workers_on_one_gpu() -> None:
    """An agent may report two workers of a leaving gang on one GPU."""
    gang = a_job("g").gang(2).share(40).placed("n1", "n1", percent=40).running()
    pods = [a_pod(gang.record, rank).running().record for rank in (0, 1)]
    evicted = gang.after(
        transitions.unplaced, AttemptOutcome.PREEMPTED, "HigherQueue", "Preempted.", NOW, NOW
    ).record
    node = a_gpu_node("n1", 2, sessions={0: [a_session(pod) for pod in pods]})
    cycle = Cycle(OperatorConfig())
    cycle.run(a_view([evicted], pods, [node]), WriteHistory({}, {}), NOW)
    held = [
        (*sample.labels.values(), sample.value)
        for family in cycle.gauges(NOW)
        if family.name == "laneway_job_gpu_share_ratio"
        for sample in family.samples
    ]
    assert held == [("ns", "g", "n1", "n1/0", 0.8)]


def test_the_status_of_a_job_of_another_controller_is_not_written() -> None:
    """MultiKueue copies the status that the job has in another cluster."""
    mirrored = a_job("a").spec(managedBy="kueue.x-k8s.io/multikueue").placed("n1", at=NOW - 300)
    job = mirrored.running(since=NOW - 120).record
    assert decided(a_view([job], gpu_nodes=[a_gpu_node("n1")])).writes == ()


class TestAfterACycleWithoutADecision:
    @pytest.fixture
    def first(self) -> JobRecord:
        return a_job("first").visited().record

    @pytest.fixture
    def state(self, first: JobRecord) -> ClusterState:
        return a_view([first], gpu_nodes=[a_gpu_node("n1", 1)])

    @pytest.fixture
    def cycle(self, state: ClusterState) -> Cycle:
        """It has started the first job."""
        cycle = Cycle(OperatorConfig())
        (write,) = cycle.run(state, WriteHistory({}, {}), NOW).writes
        assert write.creates
        return cycle

    @pytest.fixture
    def err(self, cycle: Cycle, state: ClusterState, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
        def run(in_flight: Collection[str] = ()) -> None:
            def wrong(*_: object) -> None:
                raise InvalidPlan("a policy erred")

            with monkeypatch.context() as once:
                once.setattr(Scheduler, "decide", wrong)
                assert cycle.run(state, WriteHistory({}, {}), NOW + 1, in_flight).problem

        return run

    def test_a_start_in_flight_keeps_its_gpu(
        self, first: JobRecord, state: ClusterState, cycle: Cycle, err: Callable[..., None]
    ) -> None:
        state.note_priority_class(None, URGENT)
        state.note_job(None, a_job("second").spec(priorityClassName="urgent").visited().record)
        err([first.uid])
        result = cycle.run(state, WriteHistory({}, {}), NOW + 2, [first.uid])
        assert not any(write.creates for write in result.writes)
        assert result.waiting["ns/second"].code is not WaitingCode.NOT_CONSIDERED

    def test_a_job_that_is_gone_meanwhile_is_forgotten(
        self, first: JobRecord, state: ClusterState, cycle: Cycle, err: Callable[..., None]
    ) -> None:
        err()
        state.note_job(first, None)
        assert cycle.run(state, WriteHistory({}, {}), NOW + 2).writes == ()

    def test_whatever_a_policy_raises_what_happened_to_jobs_is_written(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = a_job("done").placed("n1").running().record
        view = a_view([job], [a_pod(job).ended(0).record], [a_gpu_node("n1", 1)])

        def wrong(*_: object) -> None:
            raise ZeroDivisionError("division by zero")

        for name in ("decide", "next_decision_seconds"):
            monkeypatch.setattr(Scheduler, name, wrong)
        result = Cycle(OperatorConfig()).run(view, WriteHistory({}, {}), NOW)
        assert result.problem == "ZeroDivisionError: division by zero"
        assert NOW < result.due_seconds < NOW + 60
        write = write_of(result, "done")
        assert write is not None
        assert write.status.completion_time is not None


class TestAdvice:
    def view(self) -> ClusterState:
        old = a_job("old").gang(2).placed("n1", "n1").running(since=NOW - 300).record
        pods = [a_pod(old, rank).running(since=NOW - 300).record for rank in (0, 1)]
        waiting = [a_job(name).gang(3).visited().record for name in ("a", "b")]
        return a_view([old, *waiting], pods, gpu_nodes=[a_gpu_node("n1", gpus=3)])

    def test_a_waiting_job_is_told_who_is_ahead_when_it_may_start_and_what_to_change(self) -> None:
        write = write_of(decided(self.view()), "b")
        assert write is not None
        waiting = write.status.waiting
        assert waiting is not None
        assert waiting.ahead == ("ns/a",)
        assert waiting.alternatives == ("workers: 1 instead of 3",)
        assert waiting.estimated_start is not None
        assert parse_time(waiting.estimated_start) >= NOW + 300, "those that run go on for as long again"
        assert "as long again" in waiting.estimate_basis

    def test_it_is_not_written_again_as_long_as_it_says_the_same(self) -> None:
        view = self.view()
        first = decided(view)
        for write in first.writes:
            view.note_job(write.job, write.job.with_status(write.status))
        later = decided(view, now=NOW + 7)
        assert [each for each in later.writes if each.job.name != "old"] == []


@pytest.mark.parametrize("after_seconds", [1, 61])
def test_a_job_that_is_deleted_while_its_status_is_deferred_is_forgotten(after_seconds: float) -> None:
    holder = a_job("a").placed("n1").running(since=NOW).record
    waiting = a_job("b").visited().record
    view = a_view([holder, waiting], [a_pod(holder).running(since=NOW).record], [a_gpu_node("n1", gpus=1)])
    config = OperatorConfig()
    cycle = Cycle(config)
    history = WriteHistory({}, {job.uid: NOW for job in (holder, waiting)})
    cycle.run(view, history, NOW)
    for job in (holder, waiting):
        view.note_job(job, None)
    result = cycle.run(view, history, NOW + after_seconds)
    assert result.writes == ()
    assert cycle.run(view, history, NOW + 120).writes == ()


def test_a_job_that_never_had_a_lane_is_charged_nothing_and_meets_no_deadline() -> None:
    job = a_job("a").spec(activeDeadlineSeconds=600).placed("n1", at=NOW - 3600).record
    pod = a_pod(job).running(since=NOW - 3590).record
    session = a_session(pod, state="Waiting", lane=None, message="no memory")
    view = a_view([job], [pod], [a_gpu_node("n1", sessions={0: [session]})])
    status = reconciled_job_of(job, pod, view=view).job.status
    assert condition_of(status, "Running") == ("False", "WaitingForLane")
    assert (status.attained_service_gpu_milliseconds, status.executed_milliseconds) == (0, 0)


def test_an_ended_worker_waits_for_no_lane() -> None:
    job = a_job("g").gang(2).placed("n1", "n2").running(since=NOW - 50).record
    runs, ended = a_pod(job, 0).running().record, a_pod(job, 1).ended(0).record
    stale = a_session(ended, state="Waiting", lane=None)
    gpu_nodes = [
        a_gpu_node("n1", sessions={0: [a_session(runs, lane=0)]}),
        a_gpu_node("n2", sessions={0: [stale]}),
    ]
    view = a_view([job], [runs, ended], gpu_nodes)
    assert condition_of(reconciled_job_of(job, runs, ended, view=view).job.status, "Running")[0] == "True"


def test_an_attempt_with_a_container_that_cannot_start_never_ran() -> None:
    job = a_job("j").placed("n1", at=NOW - 5000).status(unstarted_attempts=3).record
    pod = a_pod(job).bound()
    pod.raw["status"] = {
        "phase": "Pending",
        "containerStatuses": [
            {"name": "trainer", "state": {"running": {"startedAt": format_time(NOW - 4990)}}},
            {"name": "side", "state": {"waiting": {"reason": "ImagePullBackOff"}}},
        ],
    }
    assert reconciled_job_of(job, pod.record).job.status.unstarted_attempts == 4


def test_a_reason_that_no_condition_may_have_still_fails_the_job() -> None:
    job = a_job("j").spec(backoffLimit=0).placed("n1").running().record
    status = reconciled_job_of(job, a_pod(job).ended(1, reason="Error\u00b2").record).job.status
    assert condition_of(status, "Failed") == ("True", "WorkerFailed")


def test_a_changed_label_of_a_node_counts_for_the_next_gang() -> None:
    """The labels alone change: no GPU becomes free, and the same operator goes on."""
    rack = "example.com/rack"
    nodes = [a_node(f"n{number}", labels={rack: name}) for number, name in ((1, "r1"), (2, "r1"), (3, "r2"))]
    gpu_nodes = [a_gpu_node(f"n{number}", gpus=2) for number in (1, 2, 3)]
    config = OperatorConfig.model_validate({"scheduling": {"topology": {"levels": [rack]}}})
    view, cycle = a_view([], [], gpu_nodes, nodes), Cycle(config)
    cycle.run(view, WriteHistory({}, {}), NOW)
    view.note_node(nodes[0], a_node("n1", labels={rack: "r2"}))
    view.note_job(None, a_job("gang").gang(4).spec(placement="Consolidate").record)
    started = write_of(cycle.run(view, WriteHistory({}, {}), NOW + 1), "gang")
    assert started is not None
    assert {worker.node for worker in started.creates} == {"n1", "n3"}
