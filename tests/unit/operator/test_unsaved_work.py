"""What an eviction would lose: from the sessions to the status, the scheduler's job and the warning."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.api.attempt_status import AttemptOutcome
from laneway.api.gpu_node import SavedWorkStatus
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import ProgressStatus, TrainingJobStatus
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.unsaved_work import (
    loses_much,
    starts_over,
    unsaved_seconds,
    with_saved_work,
)
from laneway.operator.state.sessions import saved_works

from tests.unit.operator.builders import NOW, a_gpu_node, a_job, a_pod, a_session, a_view, decided, write_of


def running(executed_seconds: float, attempt: int = 1, **progress: Any) -> TrainingJobStatus:
    return TrainingJobStatus(
        attempt=attempt,
        start_time=format_time(NOW - 10_000),
        executed_milliseconds=round(executed_seconds * 1000),
        service_counted_at=format_time(NOW),
        progress=ProgressStatus(**progress),
    )


def works(since: float, *, checkpointed: bool = False, loaded: float | None = None) -> SavedWorkStatus:
    return SavedWorkStatus(
        unsaved_since=format_time(since),
        checkpointed=checkpointed,
        loaded_from=None if loaded is None else format_time(loaded),
    )


def after(status: TrainingJobStatus, *sessions: SavedWorkStatus, **progress: Any) -> TrainingJobStatus:
    assert status.progress is not None
    now = status.progress.model_copy(update=progress)
    return status.model_copy(update={"progress": with_saved_work(status, now, sessions, NOW)})


def test_the_latest_checkpoint_of_any_worker_counts_for_the_gang() -> None:
    status = after(running(1000), works(NOW - 900), works(NOW - 100, checkpointed=True))
    assert unsaved_seconds(status) == pytest.approx(100)
    assert status.progress is not None
    assert status.progress.last_checkpoint_time == status.progress.unsaved_since == format_time(NOW - 100)
    assert not loses_much(status, NOW)
    assert loses_much(status, NOW + 500)


def test_nothing_is_claimed_where_no_client_watches() -> None:
    status = after(running(50_000))
    assert unsaved_seconds(status) is None
    assert not loses_much(status, NOW)
    assert status.progress == ProgressStatus()


def test_a_pause_adds_nothing_to_what_is_unsaved() -> None:
    status = after(running(1000), works(NOW - 100))
    paused = status.model_copy(update={"service_counted_at": None})
    assert unsaved_seconds(paused) == pytest.approx(100)
    assert not loses_much(paused, NOW + 5000)


def test_work_is_unsaved_again_if_the_process_that_saved_it_ends_while_the_job_is_paused() -> None:
    """What the other process has done is in no checkpoint. The pause adds nothing to it."""
    saved = after(running(1000), works(NOW - 10, checkpointed=True))
    paused = saved.model_copy(update={"service_counted_at": None})
    assert unsaved_seconds(after(paused, works(NOW - 900))) == pytest.approx(900)
    later = running(1000).model_copy(update={"progress": saved.progress, "executed_milliseconds": 1_005_000})
    assert unsaved_seconds(after(later, works(NOW - 900))) == pytest.approx(905), "it ran for 5 s since"


@pytest.mark.parametrize(
    ("story", "session", "figures", "resumes"),
    [
        ("it loaded what the job had written", works(NOW, loaded=NOW - 5000), {}, True),
        ("it loaded only older weights", works(NOW, loaded=NOW - 50_000), {}, False),
        ("it loaded nothing", works(NOW), {}, False),
        ("its steps go on", works(NOW), {"step": 810}, True),
        ("its steps start again", works(NOW), {"step": 3}, False),
    ],
)
def test_a_new_attempt_shows_whether_the_job_resumes(
    story: str, session: SavedWorkStatus, figures: dict[str, Any], resumes: bool
) -> None:
    before = running(4000, attempt=2, step=800, last_checkpoint_time=format_time(NOW - 5000))
    status = after(before, session, **figures)
    assert status.progress is not None
    assert status.progress.resumes is resumes, story
    assert starts_over(status) is not resumes
    assert bool(status.progress.warning) is not resumes
    later = after(status, works(NOW + 300, checkpointed=True))
    assert later.progress is not None
    assert (later.progress.unsaved_since == status.progress.unsaved_since) is not resumes, (
        "what a job saves counts only if it loads it"
    )


def test_an_attempt_that_ended_early_without_a_checkpoint_shows_nothing() -> None:
    status = after(running(60, attempt=2), works(NOW))
    assert status.progress is not None
    assert status.progress.resumes is None


def test_the_first_checkpoint_of_all_gives_another_chance_to_resume() -> None:
    lost = after(running(4000, attempt=2), works(NOW - 10))
    assert starts_over(lost)
    saved = after(lost, works(NOW - 5, checkpointed=True))
    assert not starts_over(saved)
    assert unsaved_seconds(saved) == pytest.approx(5)


def test_between_attempts_nothing_is_unsaved_and_what_is_known_is_kept() -> None:
    status = after(running(4000, attempt=2), works(NOW - 10))
    ended = transitions.unplaced(status, AttemptOutcome.PREEMPTED, "Preempted", "Preempted.", NOW, NOW)
    assert unsaved_seconds(ended) is None
    assert starts_over(ended)


def test_the_user_is_told_once_that_no_checkpoint_is_written() -> None:
    job = a_job().placed("n1").running(NOW - 2000).record
    pod = a_pod(job).running(NOW - 2000).record
    saved = {"unsavedSince": format_time(NOW - 1990)}
    sessions = {0: [a_session(pod, iterations=9, savedWork=saved)]}
    view = a_view([job], [pod], [a_gpu_node("n1", sessions=sessions)])
    write = write_of(decided(view, NOW), job.name)
    assert write is not None
    assert [each.reason for each in write.after.events] == ["UnsavedWork"]
    assert write.status.progress is not None
    assert "no checkpoint" in write.status.progress.warning
    reported = a_view([job.with_status(write.status)], [pod], [a_gpu_node("n1", sessions=sessions)])
    again = write_of(decided(reported, NOW), job.name)
    assert again is None or not again.after.events


@pytest.mark.parametrize("gone", [{"state": "Allocated", "ended": True}, {"state": "Ended"}])
def test_what_an_ended_process_saved_does_not_count_for_those_that_live(gone: dict[str, Any]) -> None:
    """Two processes of one container train on a GPU each. One saves and ends; the container lives."""
    pod = a_pod(a_job().placed("n1").running(NOW - 2000).record).running(NOW - 2000).record
    saved = {"unsavedSince": format_time(NOW - 10), "checkpointed": True, "ended": "ended" in gone}
    ended = a_session(pod, state=gone["state"], savedWork=saved)
    lives = a_session(pod, savedWork={"unsavedSince": format_time(NOW - 1990)})

    def said(*sessions: dict[str, Any]) -> list[float]:
        by_gpu = {gpu: [session] for gpu, session in enumerate(sessions)}
        view = a_view(pods=[pod], gpu_nodes=[a_gpu_node("n1", sessions=by_gpu)])
        return [NOW - parse_time(each.unsaved_since) for each in saved_works([pod], view.sessions)]

    assert said(ended, lives) == said(lives, ended) == [1990]
    assert said(ended) == [10], "no other process knows"


def test_a_job_that_has_ended_has_no_unsaved_work() -> None:
    began = a_job().placed("n1").running(NOW - 2000)
    pod = a_pod(began.record).ended(at=NOW - 1, since=NOW - 2000).record
    sessions = {0: [a_session(pod, iterations=9, savedWork={"unsavedSince": format_time(NOW - 1990)})]}
    view = a_view([began.record], [pod], [a_gpu_node("n1", sessions=sessions)])
    write = write_of(decided(view, NOW), "job")
    assert write is not None
    assert write.status.completion_time is not None
    assert write.status.progress is not None
    assert (write.status.progress.unsaved_since, write.status.progress.warning) == (None, "")
    late = began.after(transitions.succeeded, "done", NOW - 1, NOW - 1).status(
        executed_milliseconds=1_999_000
    )
    later = write_of(decided(a_view([late.record], [pod], [a_gpu_node("n1", sessions=sessions)]), NOW), "job")
    assert later is None or not later.after.events, "its node reports after the end"
