"""Count: any free GPUs will do."""

from __future__ import annotations

from laneway.scheduling.placement.count import Count

from tests.unit.core.scheduling.builders import a_job, a_node, gpus_of
from tests.unit.core.scheduling.placement.placing import placed


def test_a_gang_takes_the_first_free_gpus_by_number_wherever_they_are() -> None:
    plan = placed(
        Count(),
        [a_node("m", 3), a_node("n", 4), a_node("o", 4)],
        a_job("x").needs(2).runs_on("m/1", "n/0"),
        a_job("gang").needs(4),
    )
    assert gpus_of(plan, "gang") == ["m/0", "m/2", "n/1", "n/2"]


def test_a_gang_starts_whenever_as_many_gpus_are_free() -> None:
    nodes = [a_node(name, 2) for name in "abcd"]
    others = [a_job(f"x{name}").runs_on(f"{name}/0") for name in "abcd"]
    plan = placed(Count(), nodes, *others, a_job("fits").needs(4), a_job("more").needs(5).created(1))
    assert gpus_of(plan, "fits") == ["a/1", "b/1", "c/1", "d/1"]
    assert plan.waiting["more"].lacking_gpus == 5


def test_a_worker_with_several_gpus_still_has_them_on_one_node() -> None:
    plan = placed(
        Count(), [a_node("m", 3), a_node("n", 4), a_node("o", 4)], a_job("gang").needs(3, gpus_per_worker=2)
    )
    assert [worker.gpus for worker in plan.starts["gang"]] == [("m/0", "m/1"), ("n/0", "n/1"), ("n/2", "n/3")]
