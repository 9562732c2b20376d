"""What a cycle notes about a job before it plans."""

from __future__ import annotations

import pytest
from laneway.api.clock_text import to_seconds, to_text
from laneway.api.job_standing import PreemptionStatus
from laneway.api.training_job import ProfileStatus
from laneway.operator import transitions
from laneway.operator.records.priority_class import PriorityClassRecord
from laneway.scheduling import Depth, JobState

from tests.unit.operator.builders import (
    GIB,
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
    gpu_uuid,
    placement_on,
)


def reasons(standing: object) -> list[str]:
    return [happening.reason for happening in standing.happenings]  # type: ignore[attr-defined]


def test_the_first_visit_sets_every_condition_and_admits() -> None:
    standing = advanced(a_job().record)
    status = standing.job.status
    assert {each.type: each.status for each in status.conditions} == {
        "Admitted": "True",
        "Placed": "False",
        "Running": "False",
        "Preempted": "False",
        "Succeeded": "False",
        "Failed": "False",
    }
    assert all(each.reason and each.message and each.last_transition_time for each in status.conditions)
    assert standing.state is JobState.WAITING
    assert status.observed_generation == 1
    assert status.waiting is not None
    assert status.waiting.since == to_text(NOW - 100), "it waits since its creation"
    assert reasons(standing) == ["Admitted"]


def test_a_second_visit_changes_nothing() -> None:
    job = a_job().record
    once = advanced(job).job
    twice = advanced(once, now=NOW + 7)
    assert twice.job.status == once.status
    assert twice.happenings == ()


def test_a_job_that_waits_for_nothing_is_not_planned_when_its_spec_is_wrong() -> None:
    job = a_job().spec(gpus={"perWorker": 1, "share": 20}).record
    standing = advanced(job)
    assert standing.state is None
    assert condition_of(standing.job.status, "Admitted") == ("False", "InvalidSpec")
    assert "write exactly one of perWorker" in standing.job.status.conditions[0].message
    assert advanced(standing.job).happenings == (), "it is said once"


def test_a_priority_class_that_is_missing_is_named_and_one_that_is_there_counts() -> None:
    job = a_job().spec(priorityClassName="urgent").record
    refused = advanced(job)
    assert condition_of(refused.job.status, "Admitted") == ("False", "UnknownPriorityClass")
    assert refused.state is None

    view = a_view(priority_classes=[PriorityClassRecord("urgent", 7, is_default=False)])
    admitted = advanced(refused.job, view=view)
    assert condition_of(admitted.job.status, "Admitted") == ("True", "Accepted")
    assert admitted.priority == 7


def test_a_job_without_a_class_has_the_default_classs_priority() -> None:
    view = a_view(priority_classes=[PriorityClassRecord("usual", 3, is_default=True)])
    assert advanced(a_job().record, view=view).priority == 3


def test_a_starting_gang_holds_its_gpus_though_no_pod_is_there_yet() -> None:
    job = a_job().gang(2).placed("n1", "n2").record
    standing = advanced(job)
    assert standing.state is JobState.STARTING
    assert [worker.gpus for worker in standing.holds] == [("n1/0",), ("n2/0",)]
    assert standing.present == frozenset()
    assert standing.due_seconds == pytest.approx(NOW - 10 + PATIENCE.gang_timeout_seconds)


def test_a_gang_runs_since_its_last_container_started() -> None:
    job = a_job().gang(2).placed("n1", "n2").record
    pods = [a_pod(job, 0).running(since=NOW - 9).record, a_pod(job, 1).running(since=NOW - 4).record]
    standing = advanced(job, *pods)
    status = standing.job.status
    assert standing.state is JobState.RUNNING
    assert status.service_counted_at == status.start_time == to_text(NOW - 4)
    assert status.waiting is None
    assert reasons(standing) == ["Started"]


def test_a_node_whose_clock_is_ahead_cannot_start_a_job_in_the_future() -> None:
    job = a_job().placed("n1").record
    status = advanced(job, a_pod(job).running(since=NOW + 60).record).job.status
    assert status.service_counted_at == to_text(NOW)


def test_success_counts_service_up_to_the_last_containers_end() -> None:
    job = a_job().placed("n1", gpus=2).running(since=NOW - 60).spec(gpus={"perWorker": 2}).record
    pod = a_pod(job).ended(at=NOW - 20).record
    standing = advanced(job, pod)
    status = standing.job.status
    assert condition_of(status, "Succeeded") == ("True", "AllWorkersSucceeded")
    assert condition_of(status, "Running") == ("False", "Succeeded")
    assert (status.executed, status.attained_service) == ("40", "80")
    assert status.completion_time == to_text(NOW - 20)
    assert status.placement, "where it ran last stays to be seen"
    assert standing.doomed == (), "its pod stays for its logs"
    assert standing.state is None, "and holds nothing"


def test_a_job_that_was_never_seen_to_run_gets_its_service_all_the_same() -> None:
    job = a_job().placed("n1", at=NOW - 60).record
    standing = advanced(job, a_pod(job).ended(since=NOW - 50, at=NOW - 20).record)
    assert standing.job.status.executed == "30"
    assert reasons(standing) == ["Started", "Succeeded"]


def test_a_failure_restarts_the_whole_gang_after_a_wait() -> None:
    job = a_job().gang(2).placed("n1", "n2").running().record
    pods = [a_pod(job, 0).running().record, a_pod(job, 1).ended(1).record]
    standing = advanced(job, *pods)
    status = standing.job.status
    assert status.restarts == 1
    assert condition_of(status, "Placed") == ("False", "WorkerFailed")
    assert {pod.name for pod in standing.doomed} == {"job-0", "job-1"}
    assert standing.state is JobState.LEAVING
    assert [worker.node for worker in standing.holds] == ["n1"], "who ended holds nothing"
    assert reasons(standing) == ["Restarted"]

    later = advanced(standing.job, now=NOW + PATIENCE.restart_backoff_seconds - 1)
    assert later.state is None
    assert later.job.status.waiting is not None
    assert later.job.status.waiting.reason == "BackingOff"
    assert later.due_seconds == pytest.approx(NOW + PATIENCE.restart_backoff_seconds)
    assert advanced(standing.job, now=NOW + PATIENCE.restart_backoff_seconds).state is JobState.WAITING


def test_a_failure_beyond_the_limit_fails_the_job_with_its_reason() -> None:
    job = a_job().gang(2).spec(backoffLimit=2).placed("n1", "n2").running().status(restarts=2).record
    pods = [a_pod(job, 0).running().record, a_pod(job, 1).ended(9, "OOMKilled").record]
    standing = advanced(job, *pods)
    status = standing.job.status
    assert condition_of(status, "Failed") == ("True", "OOMKilled")
    assert [pod.name for pod in standing.doomed] == ["job-0"], (
        "who still runs is stopped, the failed one's logs stay"
    )
    assert status.restarts == 2
    assert reasons(standing) == ["Failed"]


def test_a_rollback_is_no_failure_and_keeps_away_from_the_node() -> None:
    job = a_job().gang(2).spec(backoffLimit=0).placed("n1", "n2").record
    pods = [a_pod(job, 0).running().record, a_pod(job, 1).refused("UnexpectedAdmissionError").record]
    standing = advanced(job, *pods)
    status = standing.job.status
    assert status.restarts == 0
    assert [(each.node, to_seconds(each.until)) for each in status.avoid] == [
        ("n2", NOW + PATIENCE.avoid_node_seconds)
    ]
    assert status.waiting is not None
    assert status.waiting.since == to_text(NOW - 100), "it has waited all the time"
    assert reasons(standing) == ["Rollback"]
    freed = advanced(standing.job, now=NOW + PATIENCE.avoid_node_seconds)
    assert freed.state is JobState.WAITING
    assert freed.job.status.avoid == ()


def test_pods_of_an_attempt_that_is_over_go_before_the_job_is_planned_again() -> None:
    job = (
        a_job()
        .placed("n1")
        .running()
        .after(transitions.preempted, "HigherPriority", "it makes way", NOW - 1)
        .record
    )
    placed = a_job().placed("n1").record
    ending = a_pod(placed).running().deleting().record
    standing = advanced(job, ending)
    assert standing.state is JobState.LEAVING
    assert standing.doomed == (), "it is being deleted already"
    assert standing.job.status.waiting is not None
    assert standing.job.status.waiting.reason == "WorkersEnding"
    assert advanced(job).state is JobState.WAITING


def test_a_pod_that_ended_and_is_still_there_is_in_the_way_and_holds_nothing() -> None:
    job = (
        a_job()
        .placed("n1")
        .running()
        .after(transitions.preempted, "HigherPriority", "it makes way", NOW - 1)
        .record
    )
    standing = advanced(job, a_pod(a_job().placed("n1").record).ended(143).record)
    assert standing.state is None
    assert len(standing.doomed) == 1


def test_the_deadline_counts_time_that_it_ran_and_no_other() -> None:
    running = (
        a_job()
        .spec(activeDeadlineSeconds=60)
        .placed("n1")
        .running(since=NOW - 20)
        .status(executed="35")
        .record
    )
    pod = a_pod(running).running().record
    standing = advanced(running, pod)
    assert standing.state is JobState.RUNNING
    assert standing.due_seconds == pytest.approx(NOW + 5)
    over = advanced(running, pod, now=NOW + 5)
    assert condition_of(over.job.status, "Failed") == ("True", "DeadlineExceeded")
    assert over.doomed == (pod,)


def test_an_ended_job_expires_after_its_ttl() -> None:
    job = a_job().spec(ttlSecondsAfterFinished=30).placed("n1").running()
    ended = job.after(transitions.succeeded, "done", NOW - 10, NOW - 10).record
    assert advanced(ended).due_seconds == pytest.approx(NOW + 20)
    assert not advanced(ended).expired
    assert advanced(ended, now=NOW + 20).expired


def test_what_the_kubelet_did_corrects_the_placement() -> None:
    job = a_job().share(30).placed("n1", percent=30).running().record
    pod = a_pod(job).running().record
    view = a_view(gpu_nodes=[a_gpu_node("n1", sessions={3: [a_session(pod)]})])
    standing = advanced(job, pod, view=view)
    assert standing.job.status.placement[0].gpus == (gpu_uuid("n1", 3),)
    assert standing.holds[0].gpus == (gpu_uuid("n1", 3),)


def test_the_profile_is_the_largest_over_the_workers_and_turns_add_up_over_attempts() -> None:
    job = a_job().gang(2).placed("n1", "n2").running().status(turns=40, turns_before_attempt=40).record
    pods = [a_pod(job, rank).running().record for rank in (0, 1)]
    small = a_session(pods[0], profiled=True, persistentBytes=GIB, ephemeralBytes=3 * GIB, turns=5)
    large = a_session(pods[1], profiled=True, persistentBytes=2 * GIB, ephemeralBytes=GIB, turns=6)
    view = a_view(
        gpu_nodes=[a_gpu_node("n1", sessions={0: [small]}), a_gpu_node("n2", sessions={0: [large]})]
    )
    status = advanced(job, *pods, view=view).job.status
    assert status.profile == ProfileStatus(persistent_bytes=2 * GIB, ephemeral_bytes=3 * GIB)
    assert status.turns == 51


def test_turns_never_go_back_when_a_session_is_forgotten() -> None:
    job = a_job().placed("n1").running().status(turns=12).record
    assert advanced(job, a_pod(job).running().record).job.status.turns == 12


def test_the_last_figures_of_an_ended_job_are_still_taken() -> None:
    job = a_job().placed("n1").running().after(transitions.succeeded, "done", NOW - 1, NOW - 1).record
    pod = a_pod(a_job().placed("n1").record).ended().record
    view = a_view(gpu_nodes=[a_gpu_node("n1", sessions={0: [a_session(pod, state="Ended", turns=9)]})])
    assert advanced(job, pod, view=view).job.status.turns == 9


def test_a_job_that_is_being_deleted_starts_nothing_and_its_workers_go() -> None:
    job = a_job().placed("n1").metadata(deletionTimestamp=to_text(NOW)).record
    pod = a_pod(a_job().placed("n1").record).running().record
    standing = advanced(job, pod)
    assert standing.state is JobState.LEAVING
    assert standing.doomed == (pod,)


def test_a_status_that_places_too_few_workers_is_rolled_back() -> None:
    job = a_job().gang(2).placed("n1").record
    standing = advanced(job)
    assert condition_of(standing.job.status, "Placed")[0] == "False"
    assert standing.state is JobState.WAITING


def test_a_running_gang_on_a_lost_node_waits_again_and_says_what_would_free_its_name() -> None:
    nodes = [a_node("n1", ready=False, since=NOW - 300), a_node("n2")]
    view = a_view(gpu_nodes=[a_gpu_node("n1"), a_gpu_node("n2")], nodes=nodes)
    job = a_job().placed("n1").running().record
    pod = a_pod(job).running().record
    standing = advanced(job, pod, view=view)
    assert reasons(standing) == ["Disrupted"]
    assert standing.doomed == (pod,)
    assert standing.job.status.restarts == 0
    assert standing.job.status.waiting is not None
    assert "out-of-service" in standing.job.status.waiting.unblock


def making_way(depth: Depth) -> JobBuilder:
    """A job that makes way for ns/new."""
    job = a_job().placed("n1").running()
    if depth is Depth.EVICT:
        return job.after(transitions.preempted, "HigherPriority", "It makes way.", NOW - 9, "ns/new", 50.0)
    told = job.after(
        transitions.told_to_park, depth, "HigherPriority", "It makes way.", NOW - 9, "ns/new", 50.0
    )
    return told.after(transitions.parked, NOW - 8)


@pytest.mark.parametrize(
    ("depth", "step"),
    [
        (Depth.EVICT, lambda job: job.placed("n2")),
        (
            Depth.EVICT,
            lambda job: job.placed("n2").running().after(transitions.unplaced, "NodeLost", "m", NOW, NOW),
        ),
        (Depth.PAUSE, lambda job: job.after(transitions.resumed, NOW)),
        (Depth.OFFLOAD, lambda job: job.after(transitions.unplaced, "Suspended", "m", NOW, NOW)),
        (Depth.OFFLOAD, lambda job: job.after(transitions.succeeded, "m", NOW, NOW)),
        (
            Depth.EVICT,
            lambda job: job.placed("n2").running().after(transitions.failed, "Error", "m", NOW, NOW),
        ),
    ],
)
def test_for_whom_and_why_it_made_way_is_known_afterwards(depth: Depth, step: object) -> None:
    job = making_way(depth)
    told = job.record.status.preemption
    assert told is not None
    assert job.record.status.last_preemption is None, "it is not over"
    status = step(job).record.status  # type: ignore[operator]
    assert status.preemption is None
    assert status.last_preemption == told
    assert status.last_preemption == PreemptionStatus(
        depth=depth.value,  # type: ignore[arg-type]
        beneficiary="ns/new",
        reason="HigherPriority",
        message="It makes way.",
        cost="50",
        since=to_text(NOW - 9),
        reached_at=None if depth is Depth.EVICT else to_text(NOW - 8),
    )


def test_who_stood_aside_and_then_ends_makes_way_once_and_the_time_before_is_its_last() -> None:
    resumed = making_way(Depth.PAUSE).after(transitions.resumed, NOW - 7)
    first = resumed.record.status.last_preemption
    paused = resumed.after(transitions.told_to_park, Depth.PAUSE, "HigherQueue", "m", NOW - 6, "ns/b")
    evicted = paused.after(transitions.preempted, "HigherQueue", "m", NOW - 5, "ns/b")
    assert evicted.record.status.last_preemption == first
    again = evicted.after(transitions.placed, placement_on("n1"), NOW).record.status.last_preemption
    assert again is not None
    assert (again.depth, again.beneficiary, again.reason) == ("Evict", "ns/b", "HigherQueue")
