"""What the page gets of API objects: the named fields, and of hostile ones nothing that breaks it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.board.views.event_view import event_views
from laneway.board.views.job_view import job_view
from laneway.board.views.node_view import node_view
from laneway.board.views.turn_view import newest, turn_views

from tests.support.training_jobs import an_ended_attempt
from tests.unit.board.objects import HOSTILE, gpu_node, session, training_job


@pytest.mark.parametrize(
    ("workers", "gpus", "request_text", "number"),
    [
        (1, {"type": "Share", "sharePercent": 50}, "50 % of a GPU", 0.5),
        (4, {"type": "Count", "count": 2}, "4 × 2 GPUs", 8.0),
        (1, {"type": "Count", "count": 1}, "1 GPU", 1.0),
        (2, {"type": "Memory", "memory": "8Gi"}, "2 × 8Gi of a GPU", None),
    ],
)
def test_a_request_reads_as_people_write_it(
    workers: int, gpus: dict[str, Any], request_text: str, number: float | None
) -> None:
    job = training_job()
    job["spec"] = {"workers": workers, "gpus": gpus}
    view = job_view(job)
    assert (view["request"], view["requestedGpus"]) == (request_text, number)


def test_a_job_that_no_operator_has_seen_is_pending() -> None:
    view = job_view(training_job())
    assert (view["key"], view["state"], view["waiting"]) == ("team-a/digits", "Pending", None)
    assert view["attempts"]["number"] == 0


def test_the_reason_of_a_wait_is_shown_with_who_holds_the_gpus() -> None:
    waiting = {
        "reason": "GPUsBusy",
        "message": "All GPUs are in use.",
        "position": 3,
        "blockers": ["team-a/large"],
        "blockersElsewhere": 2,
    }
    view = job_view(training_job(waiting=waiting))["waiting"]
    assert (view["reason"], view["position"]) == ("GPUsBusy", 3)
    assert (view["blockers"], view["blockersElsewhere"]) == (["team-a/large"], 2)


def test_work_at_risk_is_the_running_time_since_the_last_checkpoint() -> None:
    progress = {"unsavedSince": "2026-01-31T12:10:00Z", "savedExecutedMilliseconds": 60_000}
    view = job_view(training_job(executedMilliseconds=90_000, progress=progress))
    assert view["unsaved"]["milliseconds"] == 30_000


def test_without_workers_no_work_is_at_risk() -> None:
    assert job_view(training_job(executedMilliseconds=90_000))["unsaved"]["milliseconds"] is None


def test_the_start_of_an_earlier_attempt_is_not_shown_as_that_of_the_current_one() -> None:
    execution = {"attempt": 1, "startedAt": "2026-01-31T12:00:00Z"}
    assert job_view(training_job(attempt=1, execution=execution))["attempts"]["startedAt"]
    assert not job_view(training_job(attempt=2, execution=execution))["attempts"]["startedAt"]


def test_ended_attempts_tell_a_loss_of_nothing_from_an_unknown_one() -> None:
    ended = [an_ended_attempt(lost=0), an_ended_attempt(2, lost=None)]
    first, second = job_view(training_job(endedAttempts=ended))["endedAttempts"]
    assert (first["attempt"], first["nodes"], first["lostGpuMilliseconds"]) == (1, ["n1", "n2"], 0)
    assert (second["attempt"], second["lostGpuMilliseconds"]) == (2, None)


def test_a_lane_shows_who_has_its_turn_and_a_session_without_one_is_apart() -> None:
    node = gpu_node(session("a"), session("b", "Waiting"), session("c", "Waiting"), lanes=(("a", "b"),))
    (gpu,) = node_view(node)["gpus"]
    assert gpu["lanes"] == [{"id": 0, "bytes": 4 << 30, "sessions": ["a", "b"], "holder": "a"}]
    assert gpu["withoutLane"] == ["c"]
    assert (gpu["sharePercent"], gpu["persistentBytes"]) == (120, 6 << 30)


def test_an_ended_session_is_not_shown_although_its_lane_still_names_it() -> None:
    (gpu,) = node_view(gpu_node(session("a", "Ended"), lanes=(("a",),)))["gpus"]
    assert (gpu["sessions"], gpu["lanes"][0]["sessions"]) == ([], [])


def test_a_node_that_is_not_ready_says_why() -> None:
    node = gpu_node()
    node["status"]["conditions"] = [{"type": "Ready", "status": "False", "message": "No GPU was found."}]
    assert (node_view(node)["ready"], node_view(node)["message"]) == (False, "No GPU was found.")


def test_events_are_the_newest_first_and_of_this_job_only() -> None:
    def event(uid: str, time: str, about: str) -> dict[str, Any]:
        return {
            "metadata": {"uid": uid},
            "eventTime": time,
            "reason": "Started",
            "involvedObject": {"uid": about},
        }

    events = [
        event("1", "2026-01-31T12:00:00Z", "this"),
        event("2", "2026-01-31T12:05:00Z", "this"),
        event("3", "2026-01-30T12:00:00Z", "an earlier one"),
    ]
    assert [view["key"] for view in event_views(events, "this")] == ["2", "1"]


def test_turns_are_asked_for_from_the_latest_end_on() -> None:
    ended = {
        "gpu": "GPU-1",
        "lane": 0,
        "turn": 1,
        "start_seconds": 1.0,
        "end_seconds": 2.5,
        "end": "released",
    }
    running = {**ended, "turn": 2, "start_seconds": 2.5, "end_seconds": None, "end": None}
    turns = turn_views([ended, running, "no turn", {"start_seconds": float("nan")}])
    assert [turn["end"] for turn in turns] == [2.5, None]
    assert (newest(turns, 0.0), newest([], 7.0), newest(turns, 7.0)) == (2.5, 7.0, 7.0)


def test_hostile_texts_stay_texts() -> None:
    """The page makes text nodes of them, so they are passed on as they are."""
    view = job_view(training_job(waiting={"reason": HOSTILE, "message": HOSTILE}))
    assert view["waiting"]["message"] == HOSTILE


def test_a_text_of_any_length_costs_a_bounded_part_of_the_page() -> None:
    view = job_view(training_job(waiting={"message": "x" * 100_000}))
    assert len(view["waiting"]["message"]) < 1100


_names = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "namespace",
        "name",
        "uid",
        "gpus",
        "type",
        "sharePercent",
        "workers",
        "sessions",
        "lanes",
        "key",
        "state",
        "conditions",
        "waiting",
        "blockers",
        "blockersElsewhere",
        "progress",
        "percent",
        "loss",
        "position",
        "attempt",
        "execution",
        "placement",
        "failures",
        "preemption",
        "queue",
        "turns",
        "start_seconds",
        "end_seconds",
        "gpu",
        "index",
        "involvedObject",
        "series",
        "count",
        "savedExecutedMilliseconds",
        "unsavedSince",
        "executedMilliseconds",
        "endedAttempts",
        "outcome",
    ]
)
_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.just(HOSTILE)
)
_values = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names, inner, max_size=6),
    max_leaves=30,
)
_objects = st.dictionaries(_names, _values, max_size=6)
_jobs = st.builds(lambda status, spec: {**training_job(), "status": status, "spec": spec}, _values, _values)
_nodes = st.builds(lambda gpu: {"metadata": {"name": "n"}, "status": {"gpus": [gpu]}}, _values)


@pytest.mark.parametrize(
    "view",
    [job_view, node_view, lambda each: event_views([each], "u"), lambda each: turn_views([each])],
    ids=["job", "node", "event", "turn"],
)
@given(hostile=_objects | _jobs | _nodes)
def test_any_object_has_a_view_that_a_stream_can_carry(
    view: Callable[[dict[str, Any]], Any], hostile: dict[str, Any]
) -> None:
    text = json.dumps(view(hostile), allow_nan=False)
    assert "\n" not in text
    text.encode("utf-8")
