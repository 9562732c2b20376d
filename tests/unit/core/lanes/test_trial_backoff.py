"""When running in parallel is tried again."""

from __future__ import annotations

import pytest
from laneway.lanes.trial_backoff import Paces, TrialBackoff

PACES = {"a": 0.02, "b": None}


def failed(times: int) -> TrialBackoff:
    trials = TrialBackoff(first_seconds=2.0, factor=4.0, longest_seconds=240.0, pace_factor=1.5)
    for _ in range(times):
        trials.fail(PACES)
        trials.schedule(100.0)
    return trials


def test_each_failure_makes_the_interval_longer_up_to_the_limit() -> None:
    intervals = [failed(times).interval_seconds for times in range(6)]
    assert intervals == [2.0, 8.0, 32.0, 128.0, 240.0, 240.0]


def test_a_success_makes_the_interval_short_again() -> None:
    trials = failed(3)
    trials.succeed()
    trials.schedule(200.0)
    assert trials.due_seconds == 202.0


@pytest.mark.parametrize(
    ("story", "paces", "due_seconds"),
    [
        ("nothing changed", PACES, 228.0),
        ("a pace became known", {"a": 0.02, "b": 0.05}, 228.0),
        ("a little slower", {"a": 0.029, "b": None}, 228.0),
        ("slower", {"a": 0.031, "b": None}, 112.0),
        ("faster", {"a": 0.013, "b": None}, 112.0),
        ("a tenant joined", {**PACES, "c": None}, 112.0),
        ("a tenant left", {"a": 0.02}, 112.0),
    ],
)
def test_a_change_brings_the_next_trial_forward(story: str, paces: Paces, due_seconds: float) -> None:
    trials = failed(3)
    trials.restart_if_changed(paces, 110.0)
    assert trials.due_seconds == due_seconds, story
    trials.restart_if_changed(paces, 111.0)
    assert trials.due_seconds == due_seconds, f"{story}: and only once"
