"""A gang on the closest nodes: one node, else one rack, else one zone, else few of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling.gpus.domains import Domains
from laneway.scheduling.placement.closest_nodes import on_closest_nodes
from laneway.scheduling.placement.gang_layout import on_fewest_nodes

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import a_node
from tests.unit.core.scheduling.placement.placing import in_rack

quick = settings(max_examples=examples(200))

PLACES = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["", "r1", "r2", "r3"]), st.sampled_from(["", "z1", "z2"])),
    min_size=1,
    max_size=8,
)
"""Nodes, each with how many workers it can take, its rack and its zone."""

Places = Sequence[tuple[int, str, str]]


def known(places: Places) -> tuple[Domains, dict[int, list[int]]]:
    nodes = [in_rack(rack, a_node(f"n{number}"), zone) for number, (_, rack, zone) in enumerate(places)]
    slots: dict[int, list[int]] = {}
    for number, (workers, _, _) in enumerate(places):
        slots.setdefault(workers, []).append(number)
    return Domains(nodes), slots


def most_in_one(places: Places, depth: int) -> int:
    """The most workers that one rack (depth 1) or zone (depth 0) can take."""
    sums: dict[tuple[str, ...], int] = {}
    for workers, rack, zone in places:
        if (zone, rack)[depth]:
            path = (zone, rack)[: depth + 1]
            sums[path] = sums.get(path, 0) + workers
    return max(sums.values(), default=0)


@quick
@given(PLACES, st.integers(1, 12))
def test_no_narrower_domain_could_hold_the_gang(places: Places, workers: int) -> None:
    domains, slots = known(places)
    layout = on_closest_nodes(workers, slots, domains)
    if layout is None:
        assert sum(most for most, _, _ in places) < workers
        return
    assert sum(count for _, count in layout) == workers
    assert len({node for node, _ in layout}) == len(layout)
    assert all(count <= places[node][0] for node, count in layout)
    used = {node for node, _ in layout}
    if max(most for most, _, _ in places) >= workers:
        assert len(used) == 1
    elif most_in_one(places, 1) >= workers:
        assert len({places[node][1:] for node in used}) == 1
    elif most_in_one(places, 0) >= workers:
        assert len({places[node][2] for node in used}) == 1


@quick
@given(PLACES, st.integers(1, 12))
def test_what_limits_the_nodes_counts_before_racks_and_zones(places: Places, workers: int) -> None:
    domains, slots = known(places)
    fewest = on_fewest_nodes(workers, slots)
    most = math.inf if fewest is None else len(fewest)
    layout = on_closest_nodes(workers, slots, domains, most)
    assert (layout is None) == (fewest is None)
    if layout is not None:
        assert len(layout) <= most
        assert on_closest_nodes(workers, slots, domains, most - 1) is None


def test_levels_that_tell_no_nodes_apart_cost_nothing() -> None:
    assert Domains([a_node("a"), a_node("b")]).levels == ()
    in_one_zone = [in_rack("r1", a_node("a"), "z"), in_rack("r2", a_node("b"), "z")]
    assert Domains(in_one_zone).levels == ("example.com/rack",)
