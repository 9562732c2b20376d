"""FAIR's accounts: what a newcomer starts from, and by how much a next turn is shorter."""

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
    assert policy.surplus_seconds(session("a", 3.7)) == 0.0


@pytest.mark.parametrize(
    ("gpu_seconds", "want"),
    [(0.0, 0.0), (4.0, 0.0), (4.0 - 1e-9, 0.0), (4.5, 0.5), (5.9, 1.9)],
)
def test_the_surplus_is_what_exceeds_whole_quanta(gpu_seconds: float, want: float) -> None:
    surplus = Fair(quantum_seconds=2.0).surplus_seconds(session("a", gpu_seconds))
    assert surplus == pytest.approx(want, abs=1e-9)
