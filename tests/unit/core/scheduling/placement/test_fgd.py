"""Fragmentation gradient descent: where the expected fragmentation grows least."""

from __future__ import annotations

import pytest
from laneway.lanes import LaneRules
from laneway.scheduling import PlacementMode
from laneway.scheduling.placement.fgd import FGD

from tests.unit.core.scheduling.builders import GIB, a_job, a_node, gpus_of
from tests.unit.core.scheduling.placement.placing import placed


def test_a_share_leaves_what_typical_tasks_can_use() -> None:
    """Best fit would take the 60 percent and leave a remainder that no task could use."""
    others = [a_job("x").share(40).runs_on("n/0"), a_job("y").share(20).runs_on("n/1")]
    thirties = FGD((30.0,), (1.0,))
    plan = placed(thirties, [a_node("n", 2)], *others, a_job("a").share(50))
    assert gpus_of(plan, "a") == ["n/1"]


def test_a_node_with_as_many_whole_gpus_as_tasks_ask_for_is_dear() -> None:
    """Best fit would take the node with four free, and no task of four would fit anywhere."""
    nodes = [a_node("m", 4), a_node("n", 8)]
    fours = FGD((400.0,), (1.0,))
    others = a_job("x").needs(3).runs_on("n/0", "n/1", "n/2")
    assert gpus_of(placed(fours, nodes, others, a_job("a")), "a") == ["n/3"]


def test_where_it_makes_no_difference_the_fuller_node_is_taken() -> None:
    nodes = [a_node("m", 4), a_node("n", 4)]
    ones = FGD((100.0,), (1.0,))
    assert gpus_of(placed(ones, nodes, a_job("x").runs_on("n/2"), a_job("a")), "a") == ["n/0"]


def test_a_gang_goes_worker_by_worker_and_shares_no_gpu_with_itself() -> None:
    nodes = [a_node("n", 2), a_node("m", 2)]
    others = [a_job("x").share(60).runs_on("n/0")]
    plan = placed(FGD((40.0, 100.0), (1.0, 1.0)), nodes, *others, a_job("gang").needs(3, share_percent=20))
    assert len(set(gpus_of(plan, "gang"))) == 3
    assert "n/0" in gpus_of(plan, "gang")


def test_a_gang_keeps_to_one_model_where_it_can_and_mixes_where_it_must() -> None:
    nodes = [a_node("m", 3, model="T4", memory=16 * GIB), a_node("n", 2)]
    assert sorted(gpus_of(placed(FGD(), nodes, a_job("a").needs(3)), "a")) == ["m/0", "m/1", "m/2"]
    assert len(set(gpus_of(placed(FGD(), nodes, a_job("a").needs(5)), "a"))) == 5


def test_a_gpu_whose_memory_does_not_allow_it_is_passed_over() -> None:
    nodes = [a_node("n", 2, percent=200, memory=100, lanes=LaneRules(padding_percent=0))]
    others = [a_job("x").share(60).runs_on("n/0")]
    plan = placed(FGD((60.0,), (1.0,)), nodes, *others, a_job("a").share(60))
    assert gpus_of(plan, "a") == ["n/1"]


def test_what_the_job_says_itself_comes_first() -> None:
    nodes = [a_node("m", 4), a_node("n", 4)]
    spread = placed(FGD(), nodes, a_job("a").needs(2).laid(PlacementMode.SPREAD))
    assert gpus_of(spread, "a") == ["m/0", "n/0"]
    others = [
        a_job("x").needs(3).runs_on("m/0", "m/1", "m/2"),
        a_job("y").needs(3).runs_on("n/0", "n/1", "n/2"),
    ]
    consolidated = placed(FGD(), nodes, *others, a_job("a").needs(2).laid(PlacementMode.CONSOLIDATE))
    assert "a" in consolidated.waiting


@pytest.mark.parametrize(
    ("percents", "popularity", "message"),
    [
        ((50.0,), (1.0, 2.0), "as many popularities"),
        ((50.0,), (0.0,), "not all 0"),
        ((150.0,), (1.0,), "a multiple of 100"),
        ((50.0,), (-1.0,), "popularities|popularity of 0 or more"),
    ],
)
def test_parameters_that_make_no_sense(
    percents: tuple[float, ...], popularity: tuple[float, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        FGD(percents, popularity)
