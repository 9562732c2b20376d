"""Over which nodes a gang is laid, given how many of its workers each node could take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling.placement.gang_layout import (
    Layout,
    on_fewest_nodes,
    on_first_nodes,
    on_fragments,
    on_most_nodes,
)


@pytest.mark.parametrize(
    ("story", "workers", "slots", "few", "many", "fragments", "first"),
    [
        ("nothing there", 1, {}, None, None, None, None),
        ("too little", 5, {2: [1], 0: [7]}, None, None, None, None),
        (
            "the tightest node takes all",
            3,
            {4: [1], 3: [2], 8: [0]},
            [(2, 3)],
            [(0, 1), (1, 1), (2, 1)],
            [(2, 3)],
            [(0, 3)],
        ),
        (
            "the roomiest, then the tightest",
            9,
            {4: [1, 2], 6: [3], 3: [4]},
            [(3, 6), (4, 3)],
            [(3, 3), (1, 2), (2, 2), (4, 2)],
            [(4, 3), (1, 4), (2, 2)],
            [(1, 4), (2, 4), (3, 1)],
        ),
    ],
)
def test_layouts(
    story: str,
    workers: int,
    slots: dict[int, list[int]],
    few: Layout | None,
    many: Layout | None,
    fragments: Layout | None,
    first: Layout | None,
) -> None:
    assert on_fewest_nodes(workers, slots) == few, story
    assert on_most_nodes(workers, slots) == many, story
    assert on_fragments(workers, slots) == fragments, story
    assert on_first_nodes(workers, slots) == first, story


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(1, 20))
def test_every_layout_lays_all_workers_on_what_there_is_or_none(sizes: list[int], workers: int) -> None:
    slots: dict[int, list[int]] = {}
    for node, size in enumerate(sizes):
        slots.setdefault(size, []).append(node)
    for lay in (on_fewest_nodes, on_most_nodes, on_fragments, on_first_nodes):
        layout = lay(workers, slots)
        assert (layout is None) == (sum(sizes) < workers)
        for node, count in layout or []:
            assert 1 <= count <= sizes[node]
        assert sum(count for _, count in layout or []) in (0, workers)
        assert len({node for node, _ in layout or []}) == len(layout or [])
