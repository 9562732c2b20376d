"""The GPUs of a gang under best fit, and rules of every placement: modes, models, memory, avoided nodes.

GPUs are called ``<node>/<index>``."""

from __future__ import annotations

import pytest
from laneway.lanes import LaneRules
from laneway.scheduling import ForeignTenant, PlacementMode

from tests.unit.core.scheduling.builders import GIB, a_job, a_node, gpus_of, planned

SPREAD, CONSOLIDATE = PlacementMode.SPREAD, PlacementMode.CONSOLIDATE


def test_a_share_goes_to_the_fullest_gpu_that_has_room() -> None:
    plan = planned(
        [a_node("n", 3)],
        a_job("x").share(30).runs_on("n/0"),
        a_job("y").share(50).runs_on("n/1"),
        a_job("z").share(80).runs_on("n/2"),
        a_job("new").share(50),
    )
    assert gpus_of(plan, "new") == ["n/1"]


def test_a_share_opens_a_gpu_on_the_node_with_the_fewest_free() -> None:
    plan = planned(
        [a_node("m", 4), a_node("n", 4)], a_job("x").needs(2).runs_on("n/0", "n/1"), a_job("a").share(10)
    )
    assert gpus_of(plan, "a") == ["n/2"]


def test_a_gang_goes_to_the_node_that_it_fills_best() -> None:
    plan = planned(
        [a_node("l", 4), a_node("m", 4), a_node("n", 4)], a_job("x").runs_on("m/0"), a_job("gang").needs(3)
    )
    assert gpus_of(plan, "gang") == ["m/1", "m/2", "m/3"]


def test_a_gang_too_large_for_a_node_takes_the_fewest_nodes() -> None:
    plan = planned(
        [a_node("l", 2), a_node("m", 4), a_node("n", 3)],
        a_job("gang").needs(6),
    )
    assert gpus_of(plan, "gang") == ["m/0", "m/1", "m/2", "m/3", "l/0", "l/1"]


def test_a_worker_with_several_gpus_has_them_on_one_node() -> None:
    plan = planned(
        [a_node("m", 3), a_node("n", 4)],
        a_job("gang").needs(3, gpus_per_worker=2),
    )
    assert [(worker.node, worker.gpus) for worker in plan.starts["gang"]] == [
        ("n", ("n/0", "n/1")),
        ("n", ("n/2", "n/3")),
        ("m", ("m/0", "m/1")),
    ]


def test_workers_of_a_gang_never_share_a_gpu() -> None:
    plan = planned(
        [a_node("n", 2)], a_job("pair").needs(2, share_percent=25), a_job("trio").needs(3, share_percent=10)
    )
    assert gpus_of(plan, "pair") == ["n/0", "n/1"]
    assert plan.waiting["trio"].code == "NotEnoughGPUs"


@pytest.mark.parametrize(
    ("story", "workers", "want"),
    [
        ("one worker a node where there are enough nodes", 2, ["m/0", "n/0"]),
        ("evenly where there are not", 5, ["l/0", "m/0", "m/1", "n/0", "n/1"]),
    ],
)
def test_spread(story: str, workers: int, want: list[str]) -> None:
    plan = planned(
        [a_node("l", 4), a_node("m", 4), a_node("n", 4)],
        a_job("x").runs_on("l/3"),
        a_job("gang").needs(workers).laid(SPREAD),
    )
    assert sorted(gpus_of(plan, "gang")) == want, story


def test_consolidate_waits_for_a_node_rather_than_use_two() -> None:
    nodes = [a_node("m", 4), a_node("n", 4)]
    others = [a_job("x").needs(2).runs_on("m/0", "m/1"), a_job("y").needs(2).runs_on("n/0", "n/1")]
    gang = a_job("gang").needs(4).created(5)
    assert sorted(gpus_of(planned(nodes, *others, gang), "gang")) == ["m/2", "m/3", "n/2", "n/3"]
    waiting = planned(nodes, *others, gang.laid(CONSOLIDATE)).waiting["gang"]
    assert waiting.code == "AwaitingConsolidation"
    assert waiting.message == "It needs 4 GPUs (4 workers) on 1 node; the free GPUs are on 2 nodes."


def test_consolidate_takes_as_many_nodes_as_no_cluster_could_avoid() -> None:
    plan = planned([a_node("m", 4), a_node("n", 4)], a_job("gang").needs(6).laid(CONSOLIDATE))
    assert len(gpus_of(plan, "gang")) == 6


def test_only_models_that_the_job_accepts() -> None:
    nodes = [a_node("m", 2, model="T4"), a_node("n", 2, model="A100")]
    assert gpus_of(planned(nodes, a_job("a").needs(models=["A100"])), "a") == ["n/0"]


def test_a_gang_keeps_to_one_model_where_it_can_and_mixes_where_it_must() -> None:
    nodes = [a_node("m", 3, model="T4", memory=16 * GIB), a_node("n", 3)]
    assert gpus_of(planned(nodes, a_job("a").needs(3)), "a") == ["m/0", "m/1", "m/2"]
    mixed = gpus_of(planned(nodes, a_job("a").needs(4)), "a")
    assert len(set(mixed)) == 4


def test_memory_becomes_the_smallest_share_that_holds_it_on_the_gpu_chosen() -> None:
    nodes = [a_node("m", 1, model="T4", memory=16 * GIB), a_node("n", 1, memory=40 * GIB)]
    small, large = a_job("a").needs(memory_bytes=5 * GIB), a_job("b").needs(memory_bytes=20 * GIB)
    plan = planned(nodes, small, large)
    assert [(w.gpus, w.share_percent) for w in plan.starts["a"]] == [(("m/0",), 32)]
    assert [(w.gpus, w.share_percent) for w in plan.starts["b"]] == [(("n/0",), 50)]


def test_an_exclusive_job_takes_all_that_the_gpu_offers() -> None:
    nodes = [a_node("n", 2, percent=200)]
    plan = planned(nodes, a_job("x").share(10).runs_on("n/0"), a_job("a").needs(exclusive=True))
    assert [(w.gpus, w.share_percent) for w in plan.starts["a"]] == [(("n/1",), 200)]


def test_cordoned_sick_and_avoided_are_left_out() -> None:
    nodes = [a_node("k", cordoned=True), a_node("l", 1, sick=[0]), a_node("m", 1), a_node("n", 1)]
    plan = planned(nodes, a_job("a"), avoid={"a": frozenset({"m", "gone"})})
    assert gpus_of(plan, "a") == ["n/0"]


def test_plain_pods_count() -> None:
    nodes = [a_node("n", 2, foreign={0: [ForeignTenant("pod", 60)]})]
    plan = planned(nodes, a_job("a").share(50), a_job("b").share(40))
    assert gpus_of(plan, "a") == ["n/1"]
    assert gpus_of(plan, "b") in (["n/0"], ["n/1"])
    assert planned(nodes, a_job("c").needs(2)).waiting["c"].lacking_gpus == 1


class TestOvercommit:
    """Shares may sum to more than 100 percent; memory is held to by the safety condition."""

    nodes = (a_node("n", 1, percent=200, memory=100),)

    def test_a_second_share_waits_for_the_first_profile(self) -> None:
        plan = planned(self.nodes, a_job("a").share(60).runs_on("n/0"), a_job("b").share(60))
        waiting = plan.waiting["b"]
        assert waiting.code == "AwaitingProfile"
        assert waiting.blockers == ("a",)
        assert waiting.lacking_bytes == 20

    def test_and_starts_once_it_is_there(self) -> None:
        plan = planned(self.nodes, a_job("a").share(60).profiled(10, 30).runs_on("n/0"), a_job("b").share(60))
        assert gpus_of(plan, "b") == ["n/0"]

    def test_profiled_jobs_pack_by_what_they_use(self) -> None:
        jobs = [a_job(name).share(50).profiled(10, 40) for name in "abcd"]
        plan = planned(self.nodes, *jobs)
        assert len(plan.starts) == 4

    def test_gangs_need_a_lane_each(self) -> None:
        nodes = [a_node("n", 2, percent=200, lanes=LaneRules(max_lanes=1))]
        gang = a_job("a").needs(2, share_percent=50).profiled(1, 1)
        other = a_job("b").needs(2, share_percent=50).profiled(1, 1)
        plan = planned(nodes, gang.runs_on("n/0", "n/1"), other, a_job("c").share(50).profiled(1, 1))
        assert "b" in plan.waiting
        assert "c" in plan.starts
