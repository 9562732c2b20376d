"""What a job waits for between two attempts, and what its status keeps of earlier ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.api.job_conditions import ConditionType
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import NodeFailuresStatus
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.pacing import LATE_SECONDS
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import JobState, PreemptionAction
from laneway.scheduling.config.operator_config import OperatorConfig, TimeoutsConfig

from tests.support.property_examples import examples
from tests.unit.operator.builders import (
    NOW,
    TIMEOUTS,
    JobBuilder,
    a_gpu_node,
    a_job,
    a_node,
    a_pod,
    a_session,
    a_view,
    condition_of,
    decided,
    reconciled_job_of,
    write_of,
)

EVICTS = {"key": "maintenance", "effect": "NoExecute"}
RUN_60 = {"activeDeadlineSeconds": 60}


def failing(*failures: tuple[str, int, float]) -> JobBuilder:
    """A job with a failed worker on n1, and a number of earlier failures on nodes, the last a given time
    ago."""
    before = tuple(
        NodeFailuresStatus(node=node, count=count, last=format_time(NOW - ago))
        for node, count, ago in failures
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
    failed = reconciled_job_of(job, a_pod(job).ended(1).record).job
    waits = reconciled_job_of(failed)
    assert waits.job.status.waiting is not None
    assert waits.job.status.waiting.reason == "BackingOff"
    assert waits.due_seconds == pytest.approx(NOW + want * TIMEOUTS.restart_backoff_seconds), story


def test_failures_in_a_row_count_though_no_node_is_kept_away_from() -> None:
    job = failing(("n1", 1, 60)).record
    view = a_view(gpu_nodes=[a_gpu_node("n1")])
    timeouts = TimeoutsConfig(avoid_node_seconds=0)
    failed = reconciled_job_of(job, a_pod(job).ended(1).record, view=view, timeouts=timeouts).job
    assert failed.status.avoid == ()
    assert [(each.node, each.count) for each in failed.status.failures] == [("n1", 2)]


def ends(job: JobRecord, second: Callable[[JobRecord], WorkerPod], refused: str = "") -> ReconciledJob:
    """What becomes of a gang of two whose first worker runs."""
    refusals = {(job.uid, job.status.attempt): refused} if refused else {}
    return reconciled_job_of(job, a_pod(job).running().record, second(job), refusals=refusals)


UNSTARTED: dict[str, Callable[[JobRecord], WorkerPod]] = {
    "it never gets its image": lambda job: a_pod(job, 1).held_up("ErrImagePull").record,
    "its kubelet refuses it": lambda job: a_pod(job, 1).refused("UnexpectedAdmissionError").record,
    "kube-scheduler refuses it": lambda job: a_pod(job, 1).unschedulable(since=NOW - 60).record,
    "somebody deletes it before it runs": lambda job: a_pod(job, 1).bound().deleting().record,
    "it is evicted before it runs": lambda job: a_pod(job, 1).bound().disrupted("TaintManager").record,
}
RAN = "somebody deletes it once all run"
RAN_UNSEEN = "somebody deletes it once all run, which nobody has seen"
FAILED = "it fails before all run"
NOT_TAKEN = "the API server does not take it"
PREEMPTED = "preempted before it ran"
SUSPENDED = "its user suspends it before it runs"
END_THE_ROW = {RAN, RAN_UNSEEN}
STORIES = [*UNSTARTED, *END_THE_ROW, FAILED, NOT_TAKEN, PREEMPTED, SUSPENDED]


def after_attempt(job: JobBuilder, story: str) -> JobBuilder:
    """The job when one more attempt is over and its pods are gone."""
    job = job.placed("n1", "n2", at=NOW - TIMEOUTS.gang_timeout_seconds)
    if story == PREEMPTED:
        return job.after(transitions.preempted, "HigherPriority", "preempted", NOW)
    if story == SUSPENDED:
        return job.after(transitions.suspended, "it is suspended", NOW)
    if story in UNSTARTED:
        reconciled = ends(job.record, UNSTARTED[story])
    elif story == FAILED:
        reconciled = reconciled_job_of(job.record, a_pod(job.record, 1).ended(1).record)
    elif story == NOT_TAKEN:
        reconciled = ends(job.record, UNSTARTED["it never gets its image"], "exceeded quota: pods")
    else:
        job = job.running() if story == RAN else job
        reconciled = ends(job.record, lambda record: a_pod(record, 1).running().deleting().record)
    return job.after(lambda _: reconciled.job.status)


@given(st.lists(st.sampled_from(STORIES), max_size=12))
@settings(max_examples=examples(60))
def test_attempts_that_have_not_run_count_until_one_has(stories: list[str]) -> None:
    """Between two attempts only the API server knows the job: a restarted operator continues the count."""
    job, in_a_row = a_job().gang(2).spec(backoffLimit=100), 0
    for story in stories:
        job = after_attempt(job, story)
        in_a_row = 0 if story in END_THE_ROW else in_a_row + (story in UNSTARTED)
        assert job.raw["status"].get("unstartedAttempts", 0) == in_a_row, story
        waits = reconciled_job_of(job.record)
        if story in (FAILED, NOT_TAKEN):
            continue  # they wait for their own time
        want_seconds = 0.0
        if story in UNSTARTED and in_a_row > 1:
            want_seconds = min(300.0, TIMEOUTS.restart_backoff_seconds * 2.0 ** (in_a_row - 2))
        assert (waits.state is JobState.WAITING) is (want_seconds == 0), story
        assert reconciled_job_of(job.record, now=NOW + want_seconds).state is JobState.WAITING
        if want_seconds:
            avoided = [parse_time(each.until) for each in waits.job.status.avoid]
            assert waits.due_seconds == pytest.approx(min([NOW + want_seconds, *avoided])), story


@pytest.mark.parametrize("story", UNSTARTED)
def test_a_job_with_two_unstarted_attempts_in_a_row_says_why_it_waits_and_until_when(story: str) -> None:
    once = after_attempt(a_job().gang(2), story)
    assert reconciled_job_of(once.record).state is JobState.WAITING, "it is tried elsewhere at once"
    twice = after_attempt(once, story)
    placed = transitions.condition(twice.record.status, ConditionType.PLACED)
    waiting = reconciled_job_of(twice.record).job.status.waiting
    assert placed is not None
    assert waiting is not None
    again = format_time(NOW + TIMEOUTS.restart_backoff_seconds)
    sentence = f"2 attempts in a row ended before all workers ran; starts again not before {again}"
    assert (waiting.reason, waiting.message) == ("BackingOff", f"{placed.message}; {sentence}")


@pytest.mark.parametrize(
    ("story", "ttl_seconds", "ready", "want"),
    [
        ("it is to be deleted before its worker", 30, False, 20),
        ("its worker is to be removed before it", 100, False, 40),
        ("it is never deleted", None, False, 40),
        ("its worker's node answers", 60, True, 50),
        ("its worker ends late", None, True, LATE_SECONDS),
    ],
)
def test_an_ended_job_is_reconciled_again_when_the_first_thing_is_due(
    story: str, ttl_seconds: int | None, ready: bool, want: float
) -> None:
    job = a_job().spec(ttlSecondsAfterFinished=ttl_seconds).placed("n1").running()
    job = job.after(transitions.failed, "DeadlineExceeded", "m", NOW - 10, NOW - 10)
    pod = a_pod(job.record).running().deleting().record
    view = a_view(gpu_nodes=[a_gpu_node("n1")], nodes=[a_node("n1", ready=ready, since=NOW - 20)])
    timeouts = TimeoutsConfig(lost_node_removal_seconds=60, ended_job_seconds=0)
    due_seconds = reconciled_job_of(job.record, pod, view=view, timeouts=timeouts).due_seconds
    assert due_seconds == NOW + want, story


def test_the_wait_after_many_unstarted_attempts_is_capped() -> None:
    job = after_attempt(a_job().gang(2).visited().status(unstarted_attempts=5000), "it never gets its image")
    waits = reconciled_job_of(job.record)
    until = NOW + TIMEOUTS.avoid_node_seconds
    assert waits.due_seconds == until, "the avoided nodes are dropped before the wait ends"
    waits = reconciled_job_of(job.after(lambda _: waits.job.status).record, now=until)
    assert waits.job.status.avoid == ()
    assert waits.due_seconds == pytest.approx(NOW + 300)


def test_unstarted_attempts_cause_no_wait_when_the_backoff_is_zero() -> None:
    job = after_attempt(a_job().gang(2).visited().status(unstarted_attempts=5), "it never gets its image")
    assert (
        reconciled_job_of(job.record, timeouts=TimeoutsConfig(restart_backoff_seconds=0)).state
        is JobState.WAITING
    )


def test_a_suspension_ends_the_wait_after_unstarted_attempts() -> None:
    job = after_attempt(a_job().gang(2).visited().status(unstarted_attempts=5), "it never gets its image")
    assert reconciled_job_of(job.record).state is None
    suspended = write_of(
        decided(a_view([job.spec(suspend=True).record], gpu_nodes=[a_gpu_node("n1")])), "job"
    )
    assert suspended is not None
    back = job.spec(suspend=False).after(lambda _: suspended.status)
    assert reconciled_job_of(back.record).state is JobState.WAITING


def test_who_is_suspended_while_it_waits_after_a_failure_says_that_it_is_suspended() -> None:
    job = a_job().spec(suspend=True).placed("n1").running()
    job = job.after(transitions.restarted, "WorkerFailed", "worker 0 failed", NOW - 1, NOW - 1)
    write = write_of(decided(a_view([job.record], gpu_nodes=[a_gpu_node("n1")])), "job")
    assert write is not None
    assert write.status.waiting is not None
    assert write.status.waiting.reason == "Suspended"
    assert [each.reason for each in write.after.events] == ["Suspended"]


@pytest.mark.parametrize(
    ("story", "node", "want"),
    [
        ("it is as it was", a_node("n1"), ["n1"]),
        ("it was cordoned", a_node("n1", cordoned=True), []),
        ("it got a taint", a_node("n1", taints=[EVICTS]), []),
        ("it went away", a_node("n1", ready=False), ["n1"]),
    ],
)
def test_a_cordon_or_taint_ends_a_jobs_own_avoidance_of_the_node(
    story: str, node: object, want: list[str]
) -> None:
    job = a_job().visited().after(transitions.kept_away, ["n1"], "its worker was refused", NOW + 60, NOW)
    view = a_view(gpu_nodes=[a_gpu_node("n1")], nodes=[node])  # type: ignore[list-item]
    assert [each.node for each in reconciled_job_of(job.record, view=view).job.status.avoid] == want, story


def test_a_job_without_a_node_of_its_own_says_which_taint_keeps_it_off() -> None:
    job = a_job().visited().record
    nodes = [a_node("n1", taints=[EVICTS])]
    write = write_of(decided(a_view([job], gpu_nodes=[a_gpu_node("n1")], nodes=nodes)), "job")
    assert write is not None
    assert write.status.waiting is not None
    assert write.status.waiting.reason == "NodesUnavailable"
    sentence = (
        "Its workers cannot go to n1, since the template does not tolerate the taint maintenance:NoExecute."
    )
    assert write.status.waiting.message.endswith(sentence)
    assert condition_of(write.status, "Placed") == ("False", "NodesUnavailable")


def test_another_taint_is_told_though_it_keeps_off_from_the_same_nodes() -> None:
    config = OperatorConfig.model_validate(
        {"cycle": {"estimateSeconds": 3600}}
    )  # advice would bring it along
    job, agent = a_job().visited(), a_gpu_node("n1")
    cycle = Cycle(config)
    record = job.record
    for minutes, taint in enumerate(("maintenance", "maintenance", "quarantine")):
        nodes = [a_node("n1", taints=[{"key": taint, "effect": "NoExecute"}])]
        now, written = NOW + 60 * minutes, {"uid-job": NOW + 60 * minutes - 60}
        decision = cycle.run(a_view([record], gpu_nodes=[agent], nodes=nodes), WriteHistory({}, written), now)
        write = write_of(decision, "job")
        if write is not None:
            record = record.with_status(write.status)
        assert record.status.waiting is not None
        assert f"the taint {taint}:NoExecute" in record.status.waiting.message


def test_the_deadline_of_a_job_that_waits_passes_only_by_a_change_of_its_spec() -> None:
    waits = a_job().spec(**RUN_60).placed("n1").running(since=NOW - 50)
    waits = waits.after(transitions.preempted, "HigherPriority", "preempted", NOW - 1)
    assert reconciled_job_of(waits.record, now=NOW + 3600).state is JobState.WAITING
    over = reconciled_job_of(waits.spec(activeDeadlineSeconds=49).record)
    assert condition_of(over.job.status, "Failed") == ("True", "DeadlineExceeded")
    assert [each.reason for each in over.events] == ["Failed"]


def test_a_paused_job_reaches_its_deadline_before_it_has_stopped_and_not_after() -> None:
    job = a_job().spec(**RUN_60).placed("n1").running(since=NOW - 50)
    job = job.after(
        transitions.asked_to_pause, PreemptionAction.PAUSE, "HigherPriority", "Preempted.", NOW, "ns/new"
    )
    pod = a_pod(job.record).running().record
    moving = a_view([job.record], [pod], [a_gpu_node("n1", sessions={0: [a_session(pod)]})])
    stopping = reconciled_job_of(job.record, pod, view=moving)
    assert stopping.state is JobState.PAUSING
    assert stopping.due_seconds == pytest.approx(NOW + 10)
    over = reconciled_job_of(job.record, pod, view=moving, now=NOW + 10)
    assert condition_of(over.job.status, "Failed") == ("True", "DeadlineExceeded")
    stopped = job.after(transitions.paused, NOW)
    still = a_view([job.record], [pod], [a_gpu_node("n1", sessions={0: [a_session(pod, state="Paused")]})])
    assert reconciled_job_of(stopped.record, pod, view=still, now=NOW + 600).state is JobState.PAUSED


def test_a_paused_job_on_a_gpu_that_breaks_is_looked_at_again_in_time() -> None:
    job = a_job().placed("n1").running()
    job = job.after(
        transitions.asked_to_pause,
        PreemptionAction.PAUSE,
        "HigherPriority",
        "Preempted.",
        NOW - 9,
        "ns/new",
    )
    job = job.after(transitions.paused, NOW - 5)
    pod = a_pod(job.record).running().record
    node = a_gpu_node("n1", sessions={0: [a_session(pod, state="Paused")]}, sick={0: NOW - 1})
    reconciled = reconciled_job_of(job.record, pod, view=a_view([job.record], [pod], [node]))
    assert reconciled.state is JobState.PAUSED
    assert reconciled.due_seconds == pytest.approx(NOW - 1 + TIMEOUTS.unhealthy_gpu_seconds)
