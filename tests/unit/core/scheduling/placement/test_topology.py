"""Topology: NVLink peers, then a node, then a rack."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.scheduling import PlacementMode, Scheduler
from laneway.scheduling.placement.best_fit import BestFit
from laneway.scheduling.placement.consolidate import Consolidate
from laneway.scheduling.placement.nvlink import closest
from laneway.scheduling.placement.policy import PlacementPolicy
from laneway.scheduling.placement.topology import Topology

from tests.unit.core.scheduling.builders import NOW, a_job, a_node, eager, gpus_of
from tests.unit.core.scheduling.placement.placing import in_rack, on_numa, placed, wired


@pytest.mark.parametrize(
    ("story", "groups", "free", "count", "want"),
    [
        ("a linked pair", [(0, 3), (1, 2)], [0, 1, 2, 3], 2, [0, 3]),
        ("the pair that is left", [(0, 3), (1, 2)], [1, 2, 3], 2, [1, 2]),
        (
            "of a quad and a pair, the pair: the quad stays whole",
            [(0, 1, 2, 3), (4, 5)],
            [0, 1, 2, 3, 4, 5],
            2,
            [4, 5],
        ),
        ("one GPU: the one without peers", [(0, 1), (2, 3)], [0, 1, 2], 1, [2]),
        ("a quad", [(0, 2, 4, 6), (1, 3, 5, 7)], list(range(8)), 4, [0, 2, 4, 6]),
        ("more than any group", [(0, 1), (2, 3), (4, 5)], list(range(6)), 3, [0, 1, 2]),
        ("all linked alike: the first", [(0, 1, 2, 3)], [0, 1, 2, 3], 3, [0, 1, 2]),
        ("no links: the first", [], [2, 3], 1, [2]),
    ],
)
def test_gpus_that_are_close(
    story: str, groups: list[tuple[int, ...]], free: list[int], count: int, want: list[int]
) -> None:
    gpus = wired(a_node("n", 8), *groups).gpus
    assert [gpu.index for gpu in closest([gpus[index] for index in free], count)] == want, story


def test_without_links_one_numa_node_is_closest() -> None:
    gpus = on_numa(a_node("n", 4), 0, 1, 0, 1).gpus
    assert [gpu.index for gpu in closest(gpus[1:], 2)] == [1, 3]


def test_a_worker_has_linked_gpus() -> None:
    node = wired(a_node("n", 4), (0, 3), (1, 2))
    plan = placed(Topology(), [node], a_job("x").runs_on("n/1"), a_job("a").needs(1, gpus_per_worker=2))
    assert gpus_of(plan, "a") == ["n/0", "n/3"]


def test_each_worker_of_a_gang_has_its_own_pair() -> None:
    plan = placed(Topology(), [wired(a_node("n", 4), (0, 3), (1, 2))], a_job("a").needs(2, gpus_per_worker=2))
    assert [worker.gpus for worker in plan.starts["a"]] == [("n/0", "n/3"), ("n/1", "n/2")]


def test_of_nodes_that_it_fills_alike_a_gang_takes_the_better_linked() -> None:
    nodes = [wired(a_node("m", 4), (0, 1), (2, 3)), wired(a_node("n", 4), (0, 1), (2, 3))]
    others = [a_job("x").needs(2).runs_on("m/0", "m/2"), a_job("y").needs(2).runs_on("n/0", "n/1")]
    assert gpus_of(placed(Topology(), nodes, *others, a_job("a").needs(2)), "a") == ["n/2", "n/3"]
    first = placed(Topology(nodes_compared=1), nodes, *others, a_job("a").needs(2))
    assert gpus_of(first, "a") == ["m/1", "m/3"]


def test_a_gang_that_needs_several_nodes_has_them_in_one_rack() -> None:
    nodes = [
        in_rack("east", a_node("a", 4)),
        in_rack("west", a_node("b", 4)),
        in_rack("east", a_node("c", 2)),
        in_rack("west", a_node("d", 4)),
    ]
    plan = placed(Topology(), nodes, a_job("gang").needs(7))
    assert {worker.node for worker in plan.starts["gang"]} == {"b", "d"}
    tight = placed(Topology(), nodes, a_job("gang").needs(6))
    assert {worker.node for worker in tight.starts["gang"]} == {"a", "c"}


def test_and_in_few_racks_where_one_is_not_enough() -> None:
    nodes = [in_rack(rack, a_node(f"{rack}{number}", 2)) for rack in "rst" for number in range(2)]
    plan = placed(Topology(), nodes, a_job("x").needs(2).runs_on("r0/0", "r0/1"), a_job("gang").needs(6))
    assert {worker.node[0] for worker in plan.starts["gang"]} == {"r", "s"}


def test_a_gang_too_large_for_a_rack_stays_in_one_zone() -> None:
    nodes = [
        in_rack("r1", a_node("a", 4), "east"),
        in_rack("r1", a_node("b", 2), "west"),
        in_rack("r2", a_node("c", 4), "west"),
        in_rack("r2", a_node("d", 3), "east"),
    ]
    plan = placed(Topology(), nodes, a_job("gang").needs(7))
    assert {worker.node for worker in plan.starts["gang"]} == {"a", "d"}, (
        "racks of one name in two zones are two racks"
    )


def test_nodes_without_a_label_are_not_known_to_be_close() -> None:
    nodes = [a_node("a", 2), a_node("b", 2), in_rack("r", a_node("c", 3)), in_rack("r", a_node("d", 3))]
    plan = placed(Topology(), nodes, a_job("gang").needs(4))
    assert {worker.node for worker in plan.starts["gang"]} == {"c", "d"}


def test_where_no_rack_is_known_nodes_are_few() -> None:
    plan = placed(Topology(), [a_node("m", 2), a_node("n", 4), a_node("o", 4)], a_job("gang").needs(6))
    assert len({worker.node for worker in plan.starts["gang"]}) == 2


RACKS = [in_rack("east", a_node("a", 2)), in_rack("east", a_node("b", 2)), in_rack("west", a_node("c", 2))]


def test_a_changed_label_counts_from_the_next_decision_on() -> None:
    scheduler = Scheduler(RACKS, replace(eager("fifo", strict=False), placement=Topology()))
    scheduler.observe(a_job("gang").needs(4).made)
    assert {worker.node for worker in scheduler.decide(NOW).starts["gang"]} == {"a", "b"}
    scheduler.set_nodes([*RACKS[1:], in_rack("west", a_node("a", 2))])
    assert {worker.node for worker in scheduler.decide(NOW + 1).starts["gang"]} == {"a", "c"}


@pytest.mark.parametrize("policy", [BestFit(), Consolidate(), Topology()])
def test_a_gang_to_be_consolidated_prefers_one_rack_and_does_not_wait_for_it(policy: PlacementPolicy) -> None:
    gang, other = a_job("gang").needs(4).laid(PlacementMode.CONSOLIDATE), a_job("x").needs(2)
    free = placed(policy, RACKS, gang)
    assert {worker.node for worker in free.starts["gang"]} == {"a", "b"}
    busy = placed(policy, RACKS, other.runs_on("a/0", "a/1"), gang)
    assert {worker.node for worker in busy.starts["gang"]} == {"b", "c"}


def test_at_least_one_node_is_compared() -> None:
    with pytest.raises(ValueError, match="write 1 or more"):
        Topology(nodes_compared=0)
