"""What the moves of persistent memory say about a GPU."""

from __future__ import annotations

from laneway.node_agent.turns.move_costs import MoveCosts

GIB = 1 << 30


def test_one_process_that_dawdles_does_not_decide_for_all() -> None:
    costs = MoveCosts()
    for seconds in (0.1, 0.1, 30.0):
        costs.note_out(GIB, seconds)
        costs.note_back(GIB, seconds)
    assert costs.milliseconds_per_gib == 200


def test_small_moves_say_nothing() -> None:
    costs = MoveCosts()
    costs.note_out(1 << 20, 1.0)
    costs.note_back(0, 1.0)
    assert costs.milliseconds_per_gib is None


def test_the_last_moves_count() -> None:
    costs = MoveCosts()
    for seconds in (1.0,) * 20 + (0.5,) * 16:
        costs.note_out(GIB, seconds)
    assert costs.milliseconds_per_gib == 1000
