"""Nodes by the free percents of their GPUs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling.gpus.node_states import NodeStates


def test_nodes_in_the_same_state_stand_together() -> None:
    states = NodeStates([(2, 100), (0, 40), (0, 100), (1, 100), (2, 40), (1, 0)])
    assert states.nodes == {(40, 100): [0, 2], (0, 100): [1]}
    states.move(2, 40, 0)
    assert states.nodes == {(40, 100): [0], (0, 100): [1, 2]}
    assert states.of[2] == (0, 100)


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 3)), max_size=12),
)
def test_moving_comes_to_the_same_as_entering_anew(
    free: list[list[int]], moves: list[tuple[int, int]]
) -> None:
    moved = NodeStates([(node, percent) for node, gpus in enumerate(free) for percent in gpus])
    for number, percent in moves:
        node = number % len(free)
        gpu = number % len(free[node])
        moved.move(node, free[node][gpu], percent)
        free[node][gpu] = percent
    rebuilt = NodeStates([(node, percent) for node, gpus in enumerate(free) for percent in gpus])
    assert moved.nodes == rebuilt.nodes
    assert moved.of == rebuilt.of
