"""What a job waits for between two attempts, and what it remembers of the last ones."""

from __future__ import annotations

import pytest
from laneway.api.clock_text import to_text
from laneway.api.job_standing import NodeFailuresStatus
from laneway.operator import transitions
from laneway.operator.config import OperatorConfig, PatienceConfig
from laneway.operator.deciding import Decider
from laneway.operator.memory import Memory
from laneway.scheduling import Depth, JobState

from tests.unit.operator.builders import (
    NOW,
    PATIENCE,
    JobBuilder,
    a_gpu_node,
    a_job,
    a_node,
    a_pod,
    a_session,
    a_view,
    advanced,
    condition_of,
    decided,
    statement_of,
)

EVICTS = {"key": "maintenance", "effect": "NoExecute"}
RUN_60 = {"activeDeadlineSeconds": 60}


def failing(*failures: tuple[str, int, float]) -> JobBuilder:
    """A job with a failed worker on n1, and so many failures on nodes before, the last of them so long ago."""
    before = tuple(
        NodeFailuresStatus(node=node, count=count, last=to_text(NOW - ago)) for node, count, ago in failures
    )
    restarts = sum(count for _, count, _ in failures)
    job = a_job().spec(backoffLimit=100).placed("n1").running()
    return job.status(failures=before, restarts=restarts)


@pytest.mark.parametrize(
    ("story", "failures", "want"),
    [
        ("the first", [], 1),
        ("the second in a row", [("n1", 1, 60)], 2),
        ("the third, wherever the others were", [("n1", 1, 60), ("n2", 1, 600)], 4),
        ("never more than 300 s", [("n1", 30, 60)], 30),
        ("it ran for more than an hour since the last", [("n1", 7, 3601)], 1),
    ],
)
def test_the_wait_doubles_with_each_failure_in_a_row(
    story: str, failures: list[tuple[str, int, float]], want: int
) -> None:
    job = failing(*failures).record
    failed = advanced(job, a_pod(job).ended(1).record).job
    waits = advanced(failed)
    assert waits.job.status.waiting is not None
    assert waits.job.status.waiting.reason == "BackingOff"
    assert waits.due_seconds == pytest.approx(NOW + want * PATIENCE.restart_backoff_seconds), story


def test_failures_in_a_row_count_though_no_node_is_kept_away_from() -> None:
    job = failing(("n1", 1, 60)).record
    view = a_view(gpu_nodes=[a_gpu_node("n1")])
    patience = PatienceConfig(avoid_node_seconds=0)
    failed = advanced(job, a_pod(job).ended(1).record, view=view, patience=patience).job
    assert failed.status.avoid == ()
    assert [(each.node, each.count) for each in failed.status.failures] == [("n1", 2)]


def test_who_is_suspended_while_it_waits_after_a_failure_says_that_it_is_suspended() -> None:
    job = a_job().spec(suspend=True).placed("n1").running()
    job = job.after(transitions.restarted, "WorkerFailed", "worker 0 failed", NOW - 1, NOW - 1)
    statement = statement_of(decided(a_view([job.record], gpu_nodes=[a_gpu_node("n1")])), "job")
    assert statement is not None
    assert statement.status.waiting is not None
    assert statement.status.waiting.reason == "Suspended"
    assert [each.reason for each in statement.happenings] == ["Suspended"]


@pytest.mark.parametrize(
    ("story", "node", "want"),
    [
        ("it is as it was", a_node("n1"), ["n1"]),
        ("it was cordoned", a_node("n1", cordoned=True), []),
        ("it got a taint", a_node("n1", taints=[EVICTS]), []),
        ("it went away", a_node("n1", ready=False), ["n1"]),
    ],
)
def test_what_people_say_of_a_node_takes_the_place_of_what_was_learnt_of_it(
    story: str, node: object, want: list[str]
) -> None:
    job = a_job().visited().after(transitions.kept_away, ["n1"], "its worker was refused", NOW + 60, NOW)
    view = a_view(gpu_nodes=[a_gpu_node("n1")], nodes=[node])  # type: ignore[list-item]
    assert [each.node for each in advanced(job.record, view=view).job.status.avoid] == want, story


def test_a_job_without_a_node_of_its_own_says_which_taint_keeps_it_off() -> None:
    job = a_job().visited().record
    nodes = [a_node("n1", taints=[EVICTS])]
    statement = statement_of(decided(a_view([job], gpu_nodes=[a_gpu_node("n1")], nodes=nodes)), "job")
    assert statement is not None
    assert statement.status.waiting is not None
    assert statement.status.waiting.reason == "NodesUnavailable"
    sentence = (
        "Its workers cannot go to n1, since the template does not tolerate the taint maintenance:NoExecute."
    )
    assert statement.status.waiting.message.endswith(sentence)
    assert condition_of(statement.status, "Placed") == ("False", "NodesUnavailable")


def test_another_taint_is_told_though_it_keeps_off_from_the_same_nodes() -> None:
    config = OperatorConfig.model_validate({"cycle": {"adviseSeconds": 3600}})  # advice would bring it along
    job, agent = a_job().visited(), a_gpu_node("n1")
    decider = Decider(config.scheduling.policies(), config)
    record = job.record
    for minutes, taint in enumerate(("maintenance", "maintenance", "quarantine")):
        nodes = [a_node("n1", taints=[{"key": taint, "effect": "NoExecute"}])]
        now, written = NOW + 60 * minutes, {"uid-job": NOW + 60 * minutes - 60}
        decision = decider.decide(a_view([record], gpu_nodes=[agent], nodes=nodes), Memory({}, written), now)
        statement = statement_of(decision, "job")
        if statement is not None:
            record = record.with_status(statement.status)
        assert record.status.waiting is not None
        assert f"the taint {taint}:NoExecute" in record.status.waiting.message


def test_the_deadline_of_a_job_that_waits_passes_only_by_a_change_of_its_spec() -> None:
    waits = a_job().spec(**RUN_60).placed("n1").running(since=NOW - 50)
    waits = waits.after(transitions.preempted, "HigherPriority", "it makes way", NOW - 1)
    assert advanced(waits.record, now=NOW + 3600).state is JobState.WAITING
    over = advanced(waits.spec(activeDeadlineSeconds=49).record)
    assert condition_of(over.job.status, "Failed") == ("True", "DeadlineExceeded")
    assert [each.reason for each in over.happenings] == ["Failed"]


def test_a_job_that_stands_aside_reaches_its_deadline_before_it_has_stopped_and_not_after() -> None:
    job = a_job().spec(**RUN_60).placed("n1").running(since=NOW - 50)
    job = job.after(transitions.told_to_park, Depth.PAUSE, "HigherPriority", "It makes way.", NOW, "ns/new")
    pod = a_pod(job.record).running().record
    moving = a_view([job.record], [pod], [a_gpu_node("n1", sessions={0: [a_session(pod)]})])
    stopping = advanced(job.record, pod, view=moving)
    assert stopping.state is JobState.PAUSING
    assert stopping.due_seconds == pytest.approx(NOW + 10)
    over = advanced(job.record, pod, view=moving, now=NOW + 10)
    assert condition_of(over.job.status, "Failed") == ("True", "DeadlineExceeded")
    stopped = job.after(transitions.parked, NOW)
    still = a_view([job.record], [pod], [a_gpu_node("n1", sessions={0: [a_session(pod, state="Paused")]})])
    assert advanced(stopped.record, pod, view=still, now=NOW + 600).state is JobState.PAUSED


def test_a_job_that_stands_aside_on_a_gpu_that_breaks_is_looked_at_again_in_time() -> None:
    job = a_job().placed("n1").running()
    job = job.after(
        transitions.told_to_park, Depth.PAUSE, "HigherPriority", "It makes way.", NOW - 9, "ns/new"
    )
    job = job.after(transitions.parked, NOW - 5)
    pod = a_pod(job.record).running().record
    node = a_gpu_node("n1", sessions={0: [a_session(pod, state="Paused")]}, sick={0: NOW - 1})
    standing = advanced(job.record, pod, view=a_view([job.record], [pod], [node]))
    assert standing.state is JobState.PAUSED
    assert standing.due_seconds == pytest.approx(NOW - 1 + PATIENCE.unhealthy_gpu_seconds)
