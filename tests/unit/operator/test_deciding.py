"""What a cycle would write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from laneway.api.clock_text import to_seconds, to_text
from laneway.api.job_standing import WaitingStatus
from laneway.operator import lifecycle, transitions
from laneway.operator.cache import ClusterView
from laneway.operator.config import OperatorConfig, PolicyConfig, SchedulingConfig
from laneway.operator.records.priority_class import PriorityClassRecord

from tests.unit.operator.builders import (
    NOW,
    a_gpu_node,
    a_job,
    a_pod,
    a_session,
    a_view,
    condition_of,
    decided,
    statement_of,
)

URGENT = PriorityClassRecord("urgent", 10, is_default=False)


def test_a_new_job_is_admitted_and_placed_in_one_write_that_names_the_workers_to_make() -> None:
    view = a_view([a_job("a").gang(2).record], gpu_nodes=[a_gpu_node("n1", gpus=2)])
    statement = statement_of(decided(view), "a")
    assert statement is not None
    assert statement.write
    assert [each.reason for each in statement.happenings] == ["Admitted", "Placed"]
    assert statement.status.attempt == 1
    assert [(worker.worker, worker.node) for worker in statement.creates] == [(0, "n1"), (1, "n1")]


def test_a_half_started_gang_is_completed_and_not_started_anew() -> None:
    job = a_job("a").gang(3).placed("n1", "n1", "n1").record
    pods = [a_pod(job, 0).running().record, a_pod(job, 2).record]
    statement = statement_of(decided(a_view([job], pods, [a_gpu_node("n1")])), "a")
    assert statement is not None
    assert [worker.worker for worker in statement.creates] == [1]
    assert statement.status.attempt == 1


def test_a_gang_that_runs_makes_nothing() -> None:
    job = a_job("a").gang(2).placed("n1", "n1").running(since=NOW).record
    pods = [a_pod(job, rank).running(since=NOW).record for rank in (0, 1)]
    assert statement_of(decided(a_view([job], pods, [a_gpu_node("n1")])), "a") is None


def test_who_does_not_fit_waits_with_reason_position_and_way_out() -> None:
    holder = a_job("a").placed("n1").running(since=NOW).record
    waits = [a_job(name).visited().record for name in ("b", "c")]
    view = a_view([holder, *waits], [a_pod(holder).running(since=NOW).record], [a_gpu_node("n1", gpus=1)])
    decision = decided(view)
    second = statement_of(decision, "c")
    assert second is not None
    assert second.status.waiting is not None
    assert (second.status.waiting.reason, second.status.waiting.position) == ("GPUsBusy", 2)
    assert second.status.waiting.unblock
    assert condition_of(second.status, "Placed") == ("False", "GPUsBusy")
    assert second.creates == ()


def test_preemption_writes_the_victim_first_and_starts_the_other_when_it_is_gone() -> None:
    victim = a_job("low").placed("n1", at=NOW - 200).running(since=NOW - 200).record
    pod = a_pod(victim).running(since=NOW - 200).record
    urgent = a_job("high").visited().spec(priorityClassName="urgent").record
    gpu_nodes = [a_gpu_node("n1", gpus=1)]
    first = decided(a_view([victim, urgent], [pod], gpu_nodes, priority_classes=[URGENT]))

    low = statement_of(first, "low")
    assert low is not None
    assert low.doomed == (pod,)
    assert condition_of(low.status, "Preempted") == ("True", "HigherPriority")
    assert "ns/high" in next(each.message for each in low.status.conditions if each.type == "Preempted")
    assert low.status.preemptions == 1
    assert low.status.placement == ()
    assert float(low.status.executed) == pytest.approx(200)
    high = statement_of(first, "high")
    assert high is not None
    assert high.creates == ()
    assert first.figures.by_state == {"preempting": 1, "waiting": 1}

    leaving = a_pod(victim).running(since=NOW - 200).deleting().record
    low_then, high_then = victim.with_status(low.status), urgent.with_status(high.status)
    second = decided(
        a_view([low_then, high_then], [leaving], gpu_nodes, priority_classes=[URGENT]), now=NOW + 1
    )
    assert all(not each.creates for each in second.statements), (
        "the GPU is held until the last worker has gone"
    )

    third = decided(a_view([low_then, high_then], [], gpu_nodes, priority_classes=[URGENT]), now=NOW + 2)
    started = statement_of(third, "high")
    assert started is not None
    assert len(started.creates) == 1
    waiting = statement_of(third, "low")
    assert waiting is None or not waiting.creates


def test_a_gang_keeps_what_others_have_left_until_the_node_reports_the_last_of_them() -> None:
    """The pods of both victims are deleted; of one, the node still reports the session. A job that comes after the gang and
    needs only one GPU must not get the other: the gang would have to preempt somebody else, and never start."""
    victim = a_job("low").gang(2).placed("n1", "n1", at=NOW - 200).record
    session = a_session(a_pod(victim, 1).record, job="low", rank=1)
    gang = a_job("high").gang(2).visited().spec(priorityClassName="urgent").record
    small = a_job("small").visited().record
    nodes = [a_gpu_node("n1", gpus=2, sessions={1: [session]})]
    decision = decided(a_view([gang, small], [], nodes, priority_classes=[URGENT]))

    assert decision.plan.starts == {}
    assert str(decision.plan.waiting["ns/high"].code) == "AwaitingDeparture"
    later = decided(
        a_view([gang, small], [], [a_gpu_node("n1", gpus=2)], priority_classes=[URGENT]), now=NOW + 1
    )
    assert set(later.plan.starts) == {"ns/high"}


def test_a_suspended_job_stops_and_that_is_no_preemption() -> None:
    job = a_job("a").spec(suspend=True).placed("n1").running().record
    pod = a_pod(job).running().record
    statement = statement_of(decided(a_view([job], [pod], [a_gpu_node("n1")])), "a")
    assert statement is not None
    assert statement.doomed == (pod,)
    assert statement.status.preemptions == 0
    assert condition_of(statement.status, "Preempted") == ("False", "NeverPreempted")
    assert [each.reason for each in statement.happenings] == ["Suspended"]


def test_one_job_that_cannot_be_judged_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lifecycle.advance

    def advance(job: Any, pods: Any, facts: Any) -> Any:
        if job.name == "odd":
            raise KeyError("surprise")
        return real(job, pods, facts)

    monkeypatch.setattr("laneway.operator.docket.advance", advance)
    decision = decided(a_view([a_job("odd").record, a_job("even").record], gpu_nodes=[a_gpu_node("n1")]))
    odd, even = statement_of(decision, "odd"), statement_of(decision, "even")
    assert odd is not None
    assert even is not None
    assert condition_of(odd.status, "Admitted") == ("False", "NotUnderstood")
    assert even.creates


class TestWhenWhatMerelyChangesIsWritten:
    """Steps are written at once; figures and sentences now and then."""

    def waiting(self, position: int) -> Any:
        job = a_job("b").visited()
        text = WaitingStatus(reason="GPUsBusy", message="m", position=position, since=to_text(NOW - 100))
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
        assert statement_of(early, "b") is None
        assert early.due_seconds == pytest.approx(NOW + 1)
        late = statement_of(decided(view, written={"uid-b": NOW - explain_seconds}), "b")
        assert late is not None
        assert late.write
        assert late.status.waiting is not None
        assert late.status.waiting.position == 1

    def test_another_reason_is_written_at_once(self) -> None:
        job = a_job("b").visited().record
        statement = statement_of(decided(self.view(job), written={"uid-b": NOW}), "b")
        assert statement is not None
        assert statement.write

    def test_only_so_many_are_written_in_one_cycle_and_the_oldest_first(self) -> None:
        config = OperatorConfig.model_validate({"cycle": {"explanationsPerSecond": 1, "explainSeconds": 1}})
        holder = a_job("a").placed("n1").running(since=NOW).record
        jobs = []
        for name in ("b", "c"):
            record = self.waiting(position=9)
            jobs.append(a_job(name).visited().status(**dict(record.status)).record)
        view = a_view([holder, *jobs], [a_pod(holder).running(since=NOW).record], [a_gpu_node("n1", gpus=1)])
        decision = decided(view, written={"uid-b": NOW - 50, "uid-c": NOW - 60}, config=config)
        assert statement_of(decision, "c") is not None
        assert statement_of(decision, "b") is None

    def test_service_is_written_now_and_then_while_a_job_runs(self) -> None:
        service_seconds = OperatorConfig().cycle.service_seconds
        job = a_job("a").placed("n1", at=NOW - 300).running(since=NOW - service_seconds).record
        pod = a_pod(job).running(since=NOW - service_seconds).record
        view = a_view([job], [pod], [a_gpu_node("n1")])
        assert statement_of(decided(view, now=NOW - 1), "a") is None
        statement = statement_of(decided(view), "a")
        assert statement is not None
        assert statement.status.attained_service == str(service_seconds)


def test_how_long_it_waited_is_told_once_when_it_runs() -> None:
    job = a_job("a").placed("n1").record
    statement = statement_of(
        decided(a_view([job], [a_pod(job).running(since=NOW - 4).record], [a_gpu_node("n1")])), "a"
    )
    assert statement is not None
    assert statement.waited_seconds == pytest.approx(96), "created 100 s ago, runs since 4 s"


def test_a_promoted_job_keeps_its_service_at_promotion() -> None:
    job = a_job("a").visited().status(attained_service="5000", executed="1").record
    order = PolicyConfig(policy="tiresias-las", options={"promotionFactor": 8})
    config = OperatorConfig(scheduling=SchedulingConfig(order=order))
    view = a_view([job], gpu_nodes=[a_gpu_node("n1", gpus=0)])
    statement = statement_of(decided(view, config=config), "a")
    assert statement is not None
    assert statement.status.service_at_promotion == "5000"
    assert statement.status.queue == 0


def test_figures_show_who_has_which_gpu() -> None:
    job = a_job("a").share(40).placed("n1", percent=40).running(since=NOW - 10).record
    figures = decided(a_view([job], [a_pod(job).running(since=NOW - 10).record], [a_gpu_node("n1")])).figures
    (of_job,) = figures.jobs
    assert [(share.node, share.gpu, share.percent) for share in of_job.shares] == [("n1", "n1/0", 40)]
    assert of_job.attained_gpu_seconds == pytest.approx(4)
    assert of_job.waiting_seconds is None
    assert figures.by_state == {"running": 1}
    assert figures.by_queue == {0: 1}


class TestAdvice:
    def view(self) -> ClusterView:
        old = a_job("old").gang(2).placed("n1", "n1").running(since=NOW - 300).record
        pods = [a_pod(old, rank).running(since=NOW - 300).record for rank in (0, 1)]
        waiting = [a_job(name).gang(3).visited().record for name in ("a", "b")]
        return a_view([old, *waiting], pods, gpu_nodes=[a_gpu_node("n1", gpus=3)])

    def test_a_waiting_job_is_told_who_is_ahead_when_it_may_start_and_what_to_change(self) -> None:
        statement = statement_of(decided(self.view()), "b")
        assert statement is not None
        waiting = statement.status.waiting
        assert waiting is not None
        assert waiting.ahead == ("ns/a",)
        assert waiting.alternatives == ("workers: 1 instead of 3",)
        assert waiting.estimated_start is not None
        assert to_seconds(waiting.estimated_start) >= NOW + 300, "those that run go on for as long again"
        assert "as long again" in waiting.estimate_basis

    def test_it_is_not_written_again_as_long_as_it_says_the_same(self) -> None:
        view = self.view()
        first = decided(view)
        jobs = {each.uid: each for each in view.jobs} | {
            each.job.uid: each.job.with_status(each.status) for each in first.statements
        }
        later = decided(replace(view, jobs=tuple(jobs.values())), now=NOW + 7)
        assert [each for each in later.statements if each.job.name != "old"] == []
