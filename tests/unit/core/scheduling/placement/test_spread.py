"""Spread: the emptiest nodes first."""

from __future__ import annotations

from laneway.scheduling import PlacementMode
from laneway.scheduling.placement.spread import Spread

from tests.unit.core.scheduling.builders import GIB, a_job, a_node, gpus_of
from tests.unit.core.scheduling.placement.placing import placed


def test_a_job_goes_to_the_node_with_the_most_free() -> None:
    plan = placed(
        Spread(),
        [a_node("m", 4), a_node("n", 4)],
        a_job("x").share(10).runs_on("m/0"),
        a_job("whole"),
    )
    assert gpus_of(plan, "whole") == ["n/0"]


def test_a_share_goes_to_the_emptiest_gpu_there() -> None:
    plan = placed(Spread(), [a_node("n", 2)], a_job("x").share(30).runs_on("n/0"), a_job("a").share(20))
    assert gpus_of(plan, "a") == ["n/1"]


def test_a_gang_has_a_node_for_each_worker_where_there_are_enough() -> None:
    plan = placed(
        Spread(),
        [a_node("l", 4), a_node("m", 4), a_node("n", 4)],
        a_job("x").runs_on("l/3"),
        a_job("two").needs(2),
    )
    assert gpus_of(plan, "two") == ["m/0", "n/0"]


def test_and_is_dealt_evenly_where_there_are_not() -> None:
    plan = placed(Spread(), [a_node("m", 4), a_node("n", 2)], a_job("gang").needs(5))
    assert gpus_of(plan, "gang") == ["m/0", "m/1", "m/2", "n/0", "n/1"]


def test_over_several_models_where_one_does_not_do() -> None:
    nodes = [a_node("m", 2, model="T4", memory=16 * GIB), a_node("n", 2)]
    plan = placed(Spread(), nodes, a_job("gang").needs(3))
    assert sorted(gpus_of(plan, "gang")) == ["m/0", "m/1", "n/0"]


def test_a_job_that_wants_few_nodes_has_its_way() -> None:
    plan = placed(
        Spread(),
        [a_node("m", 4), a_node("n", 2)],
        a_job("gang").needs(2).laid(PlacementMode.CONSOLIDATE),
    )
    assert gpus_of(plan, "gang") == ["n/0", "n/1"]
