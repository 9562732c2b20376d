"""What a cycle notes about a job before it plans."""

from __future__ import annotations

from functools import partial

import pytest
from laneway.api.attempt_status import AttemptOutcome
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import PreemptionStatus, ProfileStatus, TrainingJobStatus
from laneway.operator.cycle.templates import NOTHING_KNOWN
from laneway.operator.cycle.writes import job_write
from laneway.operator.lifecycle import transitions
from laneway.operator.state.records.priority_class import PriorityClassRecord
from laneway.scheduling import JobState, PreemptionAction

from tests.unit.operator.builders import (
    GIB,
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
    gpu_uuid,
    placement_on,
    reasons,
    reconciled_job_of,
)


def test_the_first_visit_sets_every_condition_and_admits() -> None:
    reconciled = reconciled_job_of(a_job().record)
    status = reconciled.job.status
    assert {each.type: each.status for each in status.conditions} == {
        "Accepted": "True",
        "Placed": "False",
        "Running": "False",
        "Preempted": "False",
        "Suspended": "False",
        "Complete": "False",
        "Failed": "False",
    }
    assert all(each.reason and each.message and each.last_transition_time for each in status.conditions)
    assert reconciled.state is JobState.WAITING
    assert status.observed_generation == 1
    assert status.waiting is not None
    assert status.waiting.since == format_time(NOW - 100), "it waits since its creation"
    assert reasons(reconciled) == ["Accepted"]


def test_a_second_visit_changes_nothing() -> None:
    job = a_job().record
    once = reconciled_job_of(job).job
    twice = reconciled_job_of(once, now=NOW + 7)
    assert twice.job.status == once.status
    assert twice.events == ()


def test_a_job_that_waits_for_nothing_is_not_planned_when_its_spec_is_wrong() -> None:
    job = a_job().spec(gpus={"type": "Count", "count": 1, "sharePercent": 20}).record
    reconciled = reconciled_job_of(job)
    assert reconciled.state is None
    assert condition_of(reconciled.job.status, "Accepted") == ("False", "InvalidSpec")
    assert "type Count needs count and no other amount" in reconciled.job.status.conditions[0].message
    assert reconciled_job_of(reconciled.job).events == (), "it is said once"


def test_a_priority_class_that_is_missing_is_named_and_one_that_is_there_counts() -> None:
    job = a_job().spec(priorityClassName="urgent").record
    refused = reconciled_job_of(job)
    assert condition_of(refused.job.status, "Accepted") == ("False", "UnknownPriorityClass")
    assert refused.state is None

    view = a_view(priority_classes=[PriorityClassRecord("urgent", 7, is_default=False)])
    admitted = reconciled_job_of(refused.job, view=view)
    assert condition_of(admitted.job.status, "Accepted") == ("True", "Valid")
    assert admitted.priority == 7


def test_a_job_without_a_class_has_the_default_classs_priority() -> None:
    view = a_view(priority_classes=[PriorityClassRecord("usual", 3, is_default=True)])
    assert reconciled_job_of(a_job().record, view=view).priority == 3


def test_a_starting_gang_holds_its_gpus_though_no_pod_is_there_yet() -> None:
    job = a_job().gang(2).placed("n1", "n2").record
    reconciled = reconciled_job_of(job)
    assert reconciled.state is JobState.STARTING
    assert [worker.gpus for worker in reconciled.holds] == [("n1/0",), ("n2/0",)]
    assert [each.worker for each in job_write(job, reconciled, (), NOTHING_KNOWN).creates] == [0, 1]
    assert reconciled.due_seconds == pytest.approx(NOW - 10 + TIMEOUTS.gang_timeout_seconds)


def test_a_gang_runs_since_its_last_container_started() -> None:
    job = a_job().gang(2).placed("n1", "n2").record
    pods = [a_pod(job, 0).running(since=NOW - 9).record, a_pod(job, 1).running(since=NOW - 4).record]
    reconciled = reconciled_job_of(job, *pods)
    status = reconciled.job.status
    assert reconciled.state is JobState.RUNNING
    assert status.service_counted_at == status.start_time == format_time(NOW - 4)
    assert status.waiting is None
    assert reasons(reconciled) == ["Started"]


def test_a_node_whose_clock_is_ahead_cannot_start_a_job_in_the_future() -> None:
    job = a_job().placed("n1").record
    status = reconciled_job_of(job, a_pod(job).running(since=NOW + 60).record).job.status
    assert status.service_counted_at == format_time(NOW)


def test_success_counts_service_up_to_the_last_containers_end() -> None:
    job = a_job().placed("n1", gpus=2).running(since=NOW - 60).spec(gpus={"type": "Count", "count": 2}).record
    pod = a_pod(job).ended(at=NOW - 20).record
    reconciled = reconciled_job_of(job, pod)
    status = reconciled.job.status
    assert condition_of(status, "Complete") == ("True", "AllWorkersSucceeded")
    assert condition_of(status, "Running") == ("False", "Complete")
    assert (status.executed_milliseconds, status.attained_service_gpu_milliseconds) == (40_000, 80_000)
    assert status.completion_time == format_time(NOW - 20)
    assert status.placement, "where it ran last stays to be seen"
    assert reconciled.pods_to_delete == (), "its pod stays for its logs"
    assert reconciled.state is None, "and holds nothing"


def test_a_job_that_was_never_seen_to_run_gets_its_service_all_the_same() -> None:
    job = a_job().placed("n1", at=NOW - 60).record
    reconciled = reconciled_job_of(job, a_pod(job).ended(since=NOW - 50, at=NOW - 20).record)
    assert reconciled.job.status.executed_milliseconds == 30_000
    assert reasons(reconciled) == ["Started", "Completed"]


def test_a_failure_restarts_the_whole_gang_after_a_wait() -> None:
    job = a_job().gang(2).placed("n1", "n2").running().record
    pods = [a_pod(job, 0).running().record, a_pod(job, 1).ended(1).record]
    reconciled = reconciled_job_of(job, *pods)
    status = reconciled.job.status
    assert status.restarts == 1
    assert condition_of(status, "Placed") == ("False", "WorkerFailed")
    assert {pod.name for pod in reconciled.pods_to_delete} == {"job-0", "job-1"}
    assert reconciled.state is JobState.TERMINATING
    assert [worker.node for worker in reconciled.holds] == ["n1"], "who ended holds nothing"
    assert reasons(reconciled) == ["Restarted"]

    later = reconciled_job_of(reconciled.job, now=NOW + TIMEOUTS.restart_backoff_seconds - 1)
    assert later.state is None
    assert later.job.status.waiting is not None
    assert later.job.status.waiting.reason == "BackingOff"
    assert later.due_seconds == pytest.approx(NOW + TIMEOUTS.restart_backoff_seconds)
    assert (
        reconciled_job_of(reconciled.job, now=NOW + TIMEOUTS.restart_backoff_seconds).state
        is JobState.WAITING
    )


def test_a_failure_beyond_the_limit_fails_the_job_with_its_reason() -> None:
    job = a_job().gang(2).spec(backoffLimit=2).placed("n1", "n2").running().status(restarts=2).record
    pods = [a_pod(job, 0).running().record, a_pod(job, 1).ended(9, "OOMKilled").record]
    reconciled = reconciled_job_of(job, *pods)
    status = reconciled.job.status
    assert condition_of(status, "Failed") == ("True", "OOMKilled")
    assert [pod.name for pod in reconciled.pods_to_delete] == ["job-0"], (
        "who still runs is stopped, the failed one's logs stay"
    )
    assert status.restarts == 2
    assert reasons(reconciled) == ["Failed"]


def test_a_rollback_is_no_failure_and_keeps_away_from_the_node() -> None:
    job = a_job().gang(2).spec(backoffLimit=0).placed("n1", "n2").record
    pods = [a_pod(job, 0).running().record, a_pod(job, 1).refused("UnexpectedAdmissionError").record]
    reconciled = reconciled_job_of(job, *pods)
    status = reconciled.job.status
    assert status.restarts == 0
    assert [(each.node, parse_time(each.until)) for each in status.avoid] == [
        ("n2", NOW + TIMEOUTS.avoid_node_seconds)
    ]
    assert status.waiting is not None
    assert status.waiting.since == format_time(NOW - 100), "it has waited all the time"
    assert reasons(reconciled) == ["Rollback"]
    freed = reconciled_job_of(reconciled.job, now=NOW + TIMEOUTS.avoid_node_seconds)
    assert freed.state is JobState.WAITING
    assert freed.job.status.avoid == ()


def test_pods_of_an_attempt_that_is_over_go_before_the_job_is_planned_again() -> None:
    job = (
        a_job()
        .placed("n1")
        .running()
        .after(transitions.preempted, "HigherPriority", "preempted", NOW - 1)
        .record
    )
    placed = a_job().placed("n1").record
    ending = a_pod(placed).running().deleting().record
    reconciled = reconciled_job_of(job, ending)
    assert reconciled.state is JobState.TERMINATING
    assert reconciled.pods_to_delete == (), "it is being deleted already"
    assert reconciled.job.status.waiting is not None
    assert reconciled.job.status.waiting.reason == "WorkersEnding"
    assert reconciled_job_of(job).state is JobState.WAITING


def test_a_pod_that_ended_and_is_still_there_is_in_the_way_and_holds_nothing() -> None:
    job = (
        a_job()
        .placed("n1")
        .running()
        .after(transitions.preempted, "HigherPriority", "preempted", NOW - 1)
        .record
    )
    reconciled = reconciled_job_of(job, a_pod(a_job().placed("n1").record).ended(143).record)
    assert reconciled.state is None
    assert len(reconciled.pods_to_delete) == 1


def test_the_deadline_counts_time_that_it_ran_and_no_other() -> None:
    running = (
        a_job()
        .spec(activeDeadlineSeconds=60)
        .placed("n1")
        .running(since=NOW - 20)
        .status(executed_milliseconds=35_000)
        .record
    )
    pod = a_pod(running).running().record
    reconciled = reconciled_job_of(running, pod)
    assert reconciled.state is JobState.RUNNING
    assert reconciled.due_seconds == pytest.approx(NOW + 5)
    over = reconciled_job_of(running, pod, now=NOW + 5)
    assert condition_of(over.job.status, "Failed") == ("True", "DeadlineExceeded")
    assert over.pods_to_delete == (pod,)


def test_what_the_kubelet_did_corrects_the_placement() -> None:
    job = a_job().share(30).placed("n1", percent=30).running().record
    pod = a_pod(job).running().record
    view = a_view(gpu_nodes=[a_gpu_node("n1", sessions={3: [a_session(pod)]})])
    reconciled = reconciled_job_of(job, pod, view=view)
    assert reconciled.job.status.placement[0].gpus == (gpu_uuid("n1", 3),)
    assert reconciled.holds[0].gpus == (gpu_uuid("n1", 3),)


def test_the_profile_is_the_largest_over_the_workers_and_turns_add_up_over_attempts() -> None:
    job = a_job().gang(2).placed("n1", "n2").running().status(turns=40, turns_before_attempt=40).record
    pods = [a_pod(job, rank).running().record for rank in (0, 1)]
    small = a_session(pods[0], profiled=True, persistentBytes=GIB, ephemeralBytes=3 * GIB, turns=5)
    large = a_session(pods[1], profiled=True, persistentBytes=2 * GIB, ephemeralBytes=GIB, turns=6)
    view = a_view(
        gpu_nodes=[a_gpu_node("n1", sessions={0: [small]}), a_gpu_node("n2", sessions={0: [large]})]
    )
    status = reconciled_job_of(job, *pods, view=view).job.status
    assert status.profile == ProfileStatus(persistent_bytes=2 * GIB, ephemeral_bytes=3 * GIB)
    assert status.turns == 51


def test_turns_never_go_back_when_a_session_is_forgotten() -> None:
    job = a_job().placed("n1").running().status(turns=12).record
    assert reconciled_job_of(job, a_pod(job).running().record).job.status.turns == 12


def test_the_last_figures_of_an_ended_job_are_still_taken() -> None:
    job = a_job().placed("n1").running().after(transitions.succeeded, "done", NOW - 1, NOW - 1).record
    pod = a_pod(a_job().placed("n1").record).ended().record
    view = a_view(gpu_nodes=[a_gpu_node("n1", sessions={0: [a_session(pod, state="Ended", turns=9)]})])
    assert reconciled_job_of(job, pod, view=view).job.status.turns == 9


def test_a_job_that_is_being_deleted_starts_nothing_and_its_workers_go() -> None:
    job = a_job().placed("n1").metadata(deletionTimestamp=format_time(NOW)).record
    pod = a_pod(a_job().placed("n1").record).running().record
    reconciled = reconciled_job_of(job, pod)
    assert reconciled.state is JobState.TERMINATING
    assert reconciled.pods_to_delete == (pod,)


def test_a_status_that_places_too_few_workers_is_rolled_back() -> None:
    job = a_job().gang(2).placed("n1").record
    reconciled = reconciled_job_of(job)
    assert condition_of(reconciled.job.status, "Placed")[0] == "False"
    assert reconciled.state is JobState.WAITING


def test_a_running_gang_on_a_lost_node_waits_again_and_says_what_would_free_its_name() -> None:
    nodes = [a_node("n1", ready=False, since=NOW - 300), a_node("n2")]
    view = a_view(gpu_nodes=[a_gpu_node("n1"), a_gpu_node("n2")], nodes=nodes)
    job = a_job().placed("n1").running().record
    pod = a_pod(job).running().record
    reconciled = reconciled_job_of(job, pod, view=view)
    assert reasons(reconciled) == ["Disrupted"]
    assert reconciled.pods_to_delete == (pod,)
    assert reconciled.job.status.restarts == 0
    assert reconciled.job.status.waiting is not None
    assert "out-of-service" in reconciled.job.status.waiting.unblock


def preempted_job(depth: PreemptionAction) -> JobBuilder:
    """A job that is preempted by ns/new."""
    job = a_job().placed("n1").running()
    if depth is PreemptionAction.EVICT:
        return job.after(transitions.preempted, "HigherPriority", "Preempted.", NOW - 9, "ns/new", 50.0)
    asked = job.after(
        transitions.asked_to_pause, depth, "HigherPriority", "Preempted.", NOW - 9, "ns/new", 50.0
    )
    return asked.after(transitions.paused, NOW - 8)


@pytest.mark.parametrize(
    ("depth", "step"),
    [
        (PreemptionAction.EVICT, lambda job: job.placed("n2")),
        (
            PreemptionAction.EVICT,
            lambda job: (
                job.placed("n2")
                .running()
                .after(transitions.unplaced, AttemptOutcome.DISRUPTED, "NodeLost", "m", NOW, NOW)
            ),
        ),
        (PreemptionAction.PAUSE, lambda job: job.after(transitions.resumed, NOW)),
        (PreemptionAction.OFFLOAD, lambda job: job.after(transitions.suspended, "m", NOW)),
        (PreemptionAction.OFFLOAD, lambda job: job.after(transitions.succeeded, "m", NOW, NOW)),
        (
            PreemptionAction.EVICT,
            lambda job: job.placed("n2").running().after(transitions.failed, "Error", "m", NOW, NOW),
        ),
    ],
)
def test_the_preemptor_and_reason_are_known_afterwards(depth: PreemptionAction, step: object) -> None:
    job = preempted_job(depth)
    preemption = job.record.status.preemption
    assert preemption is not None
    assert job.record.status.last_preemption is None, "it is not over"
    status = step(job).record.status  # type: ignore[operator]
    assert status.preemption is None
    assert status.last_preemption == preemption
    assert status.last_preemption == PreemptionStatus(
        action=depth.value,  # type: ignore[arg-type]
        preemptor="ns/new",
        reason="HigherPriority",
        message="Preempted.",
        cost_milliseconds=50_000,
        since=format_time(NOW - 9),
        reached_at=None if depth is PreemptionAction.EVICT else format_time(NOW - 8),
    )


def test_a_paused_job_that_is_evicted_counts_as_one_preemption() -> None:
    resumed = preempted_job(PreemptionAction.PAUSE).after(transitions.resumed, NOW - 7)
    first = resumed.record.status.last_preemption
    paused = resumed.after(
        transitions.asked_to_pause, PreemptionAction.PAUSE, "HigherQueue", "m", NOW - 6, "ns/b"
    )
    evicted = paused.after(transitions.preempted, "HigherQueue", "m", NOW - 5, "ns/b")
    assert evicted.record.status.last_preemption == first
    again = evicted.after(transitions.placed, placement_on("n1"), NOW).record.status.last_preemption
    assert again is not None
    assert (again.action, again.preemptor, again.reason) == ("Evict", "ns/b", "HigherQueue")


def waiting_since(status: TrainingJobStatus) -> str | None:
    assert status.waiting is not None
    return status.waiting.since


class TestSuspension:
    def test_the_condition_follows_the_spec(self) -> None:
        suspended = reconciled_job_of(a_job().visited().spec(suspend=True).record).job
        assert condition_of(suspended.status, "Suspended") == ("True", "SuspendedByUser")
        assert suspended.status.state == "Suspended"
        resumed = reconciled_job_of(a_job().visited().record.with_status(suspended.status)).job
        assert condition_of(resumed.status, "Suspended") == ("False", "ResumedByUser")

    def test_a_resumed_job_has_waited_since_then(self) -> None:
        visited = a_job().visited()
        since = waiting_since(visited.record.status)
        suspended = visited.after(partial(transitions.with_suspension, suspended=True), NOW - 400)
        again = suspended.after(partial(transitions.with_suspension, suspended=True), NOW - 300)
        assert waiting_since(again.record.status) == since
        resumed = again.after(partial(transitions.with_suspension, suspended=False), NOW - 200)
        assert waiting_since(resumed.record.status) == format_time(NOW - 200) != since
        later = resumed.after(partial(transitions.with_suspension, suspended=False), NOW - 100)
        assert waiting_since(later.record.status) == format_time(NOW - 200)

    def test_a_job_that_was_never_suspended_says_so(self) -> None:
        status = reconciled_job_of(a_job().record).job.status
        assert condition_of(status, "Suspended") == ("False", "NotSuspended")


@pytest.mark.parametrize(
    ("managed_by", "managed"), [("", True), ("laneway.dev/operator", True), ("example.com/other", False)]
)
def test_a_job_that_another_controller_manages_is_left_alone(managed_by: str, managed: bool) -> None:
    job = a_job().spec(managedBy=managed_by).record
    reconciled = reconciled_job_of(job)
    assert (reconciled.state is not None) is managed
    assert (reconciled.job.status != job.status) is managed
