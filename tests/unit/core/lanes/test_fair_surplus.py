"""FAIR's accounts: what a newcomer starts from, and how long a next turn is."""

from __future__ import annotations

import pytest
from laneway.lanes.turns.fair import Fair
from laneway.lanes.turns.las import LeastAttained
from laneway.lanes.turns.pack import Pack
from laneway.lanes.turns.policy import SessionView, TurnPolicy
from laneway.lanes.turns.srtf import ShortestRemaining


def session(key: str, gpu_seconds: float = 0.0, weight: int = 1) -> SessionView:
    return SessionView(key, 0.0, 0.0, gpu_seconds=gpu_seconds, weight=weight)


def test_a_newcomer_beside_nobody_keeps_what_it_has() -> None:
    assert Fair().enter(session("n", 0.25), []) == 0.25
    assert Fair().enter(session("n"), []) == 0.0


def test_a_newcomer_starts_from_the_least_service_over_weight() -> None:
    active = [session("a", 12.0, weight=4), session("b", 5.0)]
    assert Fair().enter(session("n"), active) == 3.0
    assert Fair().enter(session("n", weight=2), active) == 6.0


@pytest.mark.parametrize(
    "policy", [Fair(), LeastAttained(), Pack(), ShortestRemaining()], ids=lambda each: type(each).__name__
)
def test_without_quanta_no_turn_is_shortened(policy: TurnPolicy) -> None:
    assert policy.turn_quanta(session("a", 3.7), mean_weight=1.0) == 1.0


@pytest.mark.parametrize(("weight", "want"), [(60, 2.4), (20, 0.8), (10, 0.4)])
def test_a_turn_is_as_long_as_the_session_is_heavy(weight: int, want: float) -> None:
    fair = Fair(quantum_seconds=2.0)
    assert fair.turn_quanta(session("a", weight=weight), mean_weight=25.0) == pytest.approx(want)


@pytest.mark.parametrize(
    ("gpu_seconds", "want"),
    [(0.0, 0.0), (4.0, 0.0), (4.0 - 1e-9, 0.0), (4.5, 0.5), (5.9, 1.9)],
)
def test_the_next_turn_is_shorter_by_what_exceeds_whole_turns(gpu_seconds: float, want: float) -> None:
    quanta = Fair(quantum_seconds=2.0).turn_quanta(session("a", gpu_seconds, weight=3), mean_weight=3.0)
    assert 2.0 * (1.0 - quanta) == pytest.approx(want, abs=1e-9)
