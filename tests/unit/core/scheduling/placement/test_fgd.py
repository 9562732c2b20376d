"""Fragmentation gradient descent: where the expected fragmentation grows least."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.lanes import LaneRules
from laneway.scheduling import HostResources, Node, PlacementMode
from laneway.scheduling.placement.fgd import FGD

from tests.unit.core.scheduling.builders import GIB, JobBuilder, a_job, a_node, gpus_of
from tests.unit.core.scheduling.placement.placing import placed


def with_cpus(name: str, cpus: int, gpus: int) -> Node:
    return replace(a_node(name, gpus), host=HostResources.of({"cpu": 1000 * cpus}))


def asking(name: str, cpus: int, workers: int = 1) -> JobBuilder:
    return a_job(name).needs(workers, requests=HostResources.of({"cpu": 1000 * cpus}))


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


def test_a_task_with_few_cpus_goes_where_most_tasks_lack_cpus() -> None:
    """Best fit would take the node with fewer free GPUs, and the other one's GPUs would be of no use to tasks with 8 CPUs."""
    nodes = [with_cpus("m", 3, gpus=4), with_cpus("n", 16, gpus=2)]
    eights = FGD((100.0,), (1.0,), (8.0,))
    assert gpus_of(placed(eights, nodes, asking("a", 2)), "a") == ["m/0"]
    assert gpus_of(placed(FGD((100.0,), (1.0,)), nodes, asking("a", 2)), "a") == ["n/0"]


def test_a_task_takes_no_cpus_that_others_need_for_the_gpus_beside_it() -> None:
    nodes = [with_cpus("m", 16, gpus=2), with_cpus("n", 20, gpus=3)]
    eights = FGD((100.0,), (1.0,), (8.0,))
    assert gpus_of(placed(eights, nodes, asking("a", 12)), "a") == ["n/0"]
    assert gpus_of(placed(eights, nodes, a_job("a")), "a") == ["m/0"]


def test_each_worker_of_a_gang_counts_with_its_cpus() -> None:
    """One worker leaves enough for a task beside it; a second on the same node would not."""
    nodes = [with_cpus("m", 16, gpus=3), with_cpus("n", 16, gpus=4)]
    eights = FGD((100.0,), (1.0,), (8.0,))
    found = placed(eights, nodes, asking("gang", 6, workers=2))
    assert gpus_of(found, "gang") == ["m/0", "n/0"]


def test_a_task_without_cpus_fits_where_more_cpus_are_promised_than_there_are() -> None:
    nodes = [with_cpus("n", -1, gpus=1)]
    assert gpus_of(placed(FGD(), nodes, a_job("a")), "a") == ["n/0"]


def test_nodes_whose_cpus_are_not_known_have_enough() -> None:
    nodes = [a_node("m", 4), with_cpus("n", 1, gpus=4)]
    plan = placed(FGD(), nodes, asking("a", 1000))
    assert gpus_of(plan, "a") == ["m/0"]


@pytest.mark.parametrize(("step_percent", "taken"), [(4.0, "n/0"), (0.01, "n/1")])
def test_growths_within_a_step_are_a_tie_and_the_fuller_gpu_is_taken(step_percent: float, taken: str) -> None:
    """The fuller GPU would have 1 percent left that is of no use to tenths; the other would have 30 percent."""
    others = [a_job("x").share(49).runs_on("n/0"), a_job("y").share(20).runs_on("n/1")]
    tenths = FGD((10.0,), (1.0,), step_percent=step_percent)
    assert gpus_of(placed(tenths, [a_node("n", 2)], *others, a_job("a").share(50)), "a") == [taken]


def test_cpus_of_the_default_tasks_do_not_count_for_other_tasks() -> None:
    assert not FGD((50.0,), (1.0,)).measure.counts_cpus
    assert FGD().measure.counts_cpus


@pytest.mark.parametrize(
    ("percents", "popularity", "message"),
    [
        ((50.0,), (1.0, 2.0), "1 kinds of tasks and task_popularity 2: write as many"),
        ((50.0,), (0.0,), "above 0 for one"),
        ((150.0,), (1.0,), "a multiple of 100"),
        ((50.0,), (-1.0,), "popularity of 0 or more"),
        ((50.0,), (), "task_popularity 0: write as many"),
    ],
)
def test_parameters_that_make_no_sense(
    percents: tuple[float, ...], popularity: tuple[float, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        FGD(percents, popularity)


def test_cpus_and_steps_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="1 kinds of tasks and task_cpus 2"):
        FGD((50.0,), (1.0,), (4.0, 8.0))
    with pytest.raises(ValueError, match="-2 CPUs for a task: write 0 or more"):
        FGD((50.0,), (1.0,), (-2.0,))
    with pytest.raises(ValueError, match="step_percent is 0"):
        FGD(step_percent=0.0)
