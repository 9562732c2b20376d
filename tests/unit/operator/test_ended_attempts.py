"""The history of a job's ended attempts in its status."""

from __future__ import annotations

import pytest
from laneway.api.attempt_status import LONGEST_MESSAGE, MOST_ATTEMPTS, MOST_NODES, AttemptOutcome
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import ProgressStatus
from laneway.operator.lifecycle import transitions
from laneway.scheduling import PreemptionAction

from tests.unit.operator.builders import NOW, TIMEOUTS, a_job, a_node, a_pod, a_view, reconciled_job_of
from tests.unit.operator.builders.jobs import JobBuilder


def a_running_job(*nodes: str, saved_seconds_ago: float | None = 30) -> JobBuilder:
    """Workers with 40 % each that were placed 110 s ago and have run for 100 s."""
    nodes = nodes or ("n2", "n1")
    job = a_job().gang(len(nodes)).share(40).placed(*nodes, percent=40, at=NOW - 110).running(since=NOW - 100)
    if saved_seconds_ago is None:
        return job
    progress = ProgressStatus(
        unsaved_since=format_time(NOW - saved_seconds_ago),
        saved_executed_milliseconds=round(1000 * (100 - saved_seconds_ago)),
    )
    return job.status(progress=progress)


def test_an_ended_attempt_says_when_and_where_it_ran_why_it_ended_and_what_that_lost() -> None:
    job = a_running_job().after(transitions.preempted, "HigherQueue", "Preempted by ns/new.", NOW, "ns/new")
    assert job.raw["status"]["endedAttempts"] == [
        {
            "attempt": 1,
            "startedAt": format_time(NOW - 110),
            "endedAt": format_time(NOW),
            "workers": 2,
            "nodes": ["n1", "n2"],
            "outcome": "Preempted",
            "reason": "HigherQueue",
            "message": "Preempted by ns/new.",
            "attainedServiceGPUMilliseconds": 80_000,
            "lostServiceGPUMilliseconds": 24_000,
        }
    ]


@pytest.mark.parametrize(
    ("step", "ended"),
    [
        ((transitions.rescaled, 3, "m", NOW), ("Rescaled", "Rescaling")),
        ((transitions.rescaled_back, "m", NOW, NOW), ("Failed", "RescaleFailed")),
        ((transitions.suspended, "m", NOW), ("Suspended", "Suspended")),
        ((transitions.restarted, "OOMKilled", "m", NOW, NOW), ("Failed", "OOMKilled")),
        ((transitions.failed, "DeadlineExceeded", "m", NOW, NOW), ("Failed", "DeadlineExceeded")),
        ((transitions.succeeded, "m", NOW, NOW), ("Succeeded", "AllWorkersSucceeded")),
    ],
    ids=lambda value: value[0].__name__ if callable(value[0]) else None,
)
def test_each_end_has_its_outcome(step: tuple[object, ...], ended: tuple[str, str]) -> None:
    (attempt,) = a_running_job().after(*step).record.status.ended_attempts
    assert (attempt.outcome, attempt.reason) == ended


def test_what_the_cluster_ends_is_no_failure() -> None:
    job = a_running_job("n1").record
    lost = a_view(nodes=[a_node("n1", ready=False, since=NOW - TIMEOUTS.lost_node_seconds)])
    (attempt,) = reconciled_job_of(job, a_pod(job).running().record, view=lost).job.status.ended_attempts
    assert (attempt.outcome, attempt.reason) == ("Disrupted", "NodeLost")


def test_a_gang_that_never_ran_is_rolled_back_and_has_no_service() -> None:
    job = a_job().gang(2).placed("n1", "n2", at=NOW - TIMEOUTS.gang_timeout_seconds).record
    (attempt,) = reconciled_job_of(job, a_pod(job).running().record).job.status.ended_attempts
    assert (attempt.outcome, attempt.reason) == ("RolledBack", "GangTimeout")
    assert attempt.attained_service_gpu_milliseconds == 0


def test_a_job_that_pauses_and_resumes_is_still_in_its_attempt() -> None:
    asked = (transitions.asked_to_pause, PreemptionAction.PAUSE, "HigherQueue", "m", NOW, "ns/new")
    paused = a_running_job().after(*asked).after(transitions.paused, NOW + 1)
    assert paused.after(transitions.resumed, NOW + 2).record.status.ended_attempts == ()


def test_what_an_attempt_lost_is_left_out_where_the_client_sees_no_checkpoints() -> None:
    job = a_running_job(saved_seconds_ago=None).after(transitions.suspended, "m", NOW)
    assert "lostServiceGPUMilliseconds" not in job.raw["status"]["endedAttempts"][0]


def test_a_success_loses_nothing() -> None:
    (attempt,) = a_running_job().after(transitions.succeeded, "m", NOW, NOW).record.status.ended_attempts
    assert attempt.lost_service_gpu_milliseconds == 0


def test_an_attempt_that_had_succeeded_before_it_was_preempted_is_corrected() -> None:
    job = a_running_job("n1").after(transitions.preempted, "HigherQueue", "m", NOW, "ns/new").record
    ended = a_pod(a_running_job("n1").record).ended(at=NOW - 5).record
    status = reconciled_job_of(job, ended).job.status
    (attempt,) = status.ended_attempts
    assert (attempt.attempt, attempt.outcome, attempt.lost_service_gpu_milliseconds) == (1, "Succeeded", 0)
    assert attempt.ended_at == format_time(NOW - 5)


def test_a_job_that_ends_while_it_waits_ends_no_further_attempt() -> None:
    waiting = a_running_job().after(transitions.preempted, "HigherQueue", "m", NOW)
    failed = waiting.after(transitions.failed, "DeadlineExceeded", "m", NOW + 9, NOW + 9)
    assert failed.record.status.ended_attempts == waiting.record.status.ended_attempts
    assert (
        a_job().visited().after(transitions.failed, "Error", "m", NOW, NOW).record.status.ended_attempts == ()
    )


def test_the_latest_attempts_are_kept_in_their_order() -> None:
    job = a_job()
    for number in range(MOST_ATTEMPTS + 3):
        job = job.placed("n1", at=NOW + 2 * number).after(transitions.suspended, "m", NOW + 2 * number + 1)
    numbers = [each.attempt for each in job.record.status.ended_attempts]
    assert numbers == list(range(4, MOST_ATTEMPTS + 4))


def test_an_attempt_of_many_nodes_and_words_stays_small() -> None:
    job = a_running_job(*(f"n{number}" for number in range(20)))
    (attempt,) = job.after(
        transitions.restarted, "Error", "x" * 10_000, NOW, NOW
    ).record.status.ended_attempts
    assert (attempt.workers, len(attempt.nodes), len(attempt.message)) == (20, MOST_NODES, LONGEST_MESSAGE)


def test_an_outcome_of_a_newer_operator_does_not_hide_the_job() -> None:
    job = a_running_job().after(transitions.suspended, "m", NOW)
    (attempt,) = job.record.status.ended_attempts
    newer = job.status(ended_attempts=(attempt.model_copy(update={"outcome": "Migrated"}),)).record
    assert not newer.malformed_status
    assert newer.status.ended_attempts[0].outcome == AttemptOutcome.DISRUPTED
