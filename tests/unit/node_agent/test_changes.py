"""Which changes of a status are written, and when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.api.goodput_status import BatchStatus
from laneway.api.gpu_node import (
    GPUNodeStatus,
    GPUStatus,
    ReportStatus,
    SavedWorkStatus,
    SessionState,
    SessionStatus,
)
from laneway.node_agent.report.changes import due

INTERVAL = 15.0
BATCH = BatchStatus(
    ranks=2, local_batch=8, initial_batch=16, max_batch=16, max_local_batch=16, noise_scale=400
)
SESSION = SessionStatus(
    key="k",
    namespace="ns",
    pod="p",
    container="c",
    share_percent=50,
    quota_bytes=1,
    state=SessionState.HOLDING,
    lane=0,
    turns=100,
    iterations=1000,
    report=ReportStatus(step=1000, remaining_seconds=1000),
    saved_work=SavedWorkStatus(unsaved_since="2026-01-01T00:00:00Z"),
    batch=BATCH,
)
GPU = GPUStatus(
    uuid="g", index=0, model="m", memory_bytes=1, allocatable_bytes=1, allocatable_percent=100, healthy=True
)
LATER_CHECKPOINT = SavedWorkStatus(unsaved_since="2026-01-01T01:00:00Z", checkpointed=True)


def status(gpu: dict[str, Any] | None = None, **session: Any) -> GPUNodeStatus:
    sessions = (SESSION.model_copy(update=session),)
    return GPUNodeStatus(gpu_count=1, gpus=(GPU.model_copy(update={"sessions": sessions, **(gpu or {})}),))


@pytest.mark.parametrize(
    "changed",
    [
        status({"healthy": False}),
        status({"sessions": ()}),
        status(state=SessionState.PAUSED),
        status(lane=None),
        status(message="it outgrew its share"),
        status(offloaded_bytes=7),
        status(persistent_bytes=7),
        status(report=None),
        status(turns=0),
        status().model_copy(update={"other_pods_requests": {"cpu": "1"}}),
    ],
)
def test_what_others_act_on_is_written_at_once(changed: GPUNodeStatus) -> None:
    assert due(status(), changed, 0.0, INTERVAL)


@pytest.mark.parametrize(
    ("figures", "after_seconds"),
    [
        ({"iterations": 1101}, INTERVAL),
        ({"iterations": 1100}, 4 * INTERVAL),
        ({"held_bytes": 1}, INTERVAL),
        ({"state": SessionState.WAITING}, 4 * INTERVAL),
        ({"report": ReportStatus(step=1001, remaining_seconds=1000)}, 4 * INTERVAL),
        ({"report": ReportStatus(step=1001, remaining_seconds=500)}, INTERVAL),
        ({"saved_work": LATER_CHECKPOINT}, INTERVAL),
        ({"batch": BATCH.model_copy(update={"noise_scale": 500})}, INTERVAL),
    ],
)
def test_figures_are_written_at_intervals_and_small_changes_later(
    figures: dict[str, Any], after_seconds: float
) -> None:
    changed = status(**figures)
    assert not due(status(), changed, after_seconds - 0.1, INTERVAL)
    assert due(status(), changed, after_seconds, INTERVAL)


@given(
    turns=st.lists(st.integers(1, 50), min_size=60, max_size=400),
    waits=st.booleans(),
)
def test_a_training_node_is_written_at_most_once_in_an_interval_and_never_stays_old(
    turns: list[int], waits: bool
) -> None:
    """Looked at once a second."""
    written, written_at, now_turns = status(), 0, 100
    for now, more in enumerate(turns):
        now_turns += more
        state = SessionState.WAITING if waits and now % 2 else SessionState.HOLDING
        current = status(turns=now_turns, iterations=10 * now_turns, state=state)
        if due(written, current, now - written_at, INTERVAL):
            assert now - written_at >= INTERVAL
            written, written_at = current, now
        assert now - written_at <= 4 * INTERVAL


@given(st.floats(0, 1e9))
def test_an_idle_node_is_never_written_again(seconds: float) -> None:
    assert due(None, status(), seconds, INTERVAL)
    assert not due(status(), status(), seconds, INTERVAL)


def test_another_device_strategy_is_written_at_once() -> None:
    before = GPUNodeStatus(device_strategy="env", device_strategy_reason="no cdi: …")
    assert not due(before, before, 0, 15)
    assert due(before, before.model_copy(update={"device_strategy": "cdi"}), 0, 15)
    assert due(before, before.model_copy(update={"device_strategy_reason": "configured"}), 0, 15)
