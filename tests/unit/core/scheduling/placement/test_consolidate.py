"""Consolidate: every gang on as few nodes as can be, or not yet."""

from __future__ import annotations

from laneway.scheduling import PlacementMode
from laneway.scheduling.placement.consolidate import Consolidate

from tests.unit.core.scheduling.builders import a_job, a_node, gpus_of
from tests.unit.core.scheduling.placement.placing import placed

NODES = [a_node("m", 4), a_node("n", 4)]
OTHERS = [a_job("x").needs(2).runs_on("m/0", "m/1"), a_job("y").needs(2).runs_on("n/0", "n/1")]


def test_a_gang_that_one_node_could_hold_waits_for_one() -> None:
    plan = placed(Consolidate(), NODES, *OTHERS, a_job("gang").needs(4).created(5))
    assert "gang" in plan.waiting


def test_a_gang_that_no_node_could_hold_takes_as_many_as_it_must() -> None:
    plan = placed(Consolidate(), NODES, a_job("gang").needs(6))
    assert len(gpus_of(plan, "gang")) == 6


def test_a_share_fills_a_gpu_that_is_shared_already() -> None:
    plan = placed(Consolidate(), NODES, a_job("x").share(40).runs_on("n/2"), a_job("a").share(50))
    assert gpus_of(plan, "a") == ["n/2"]


def test_a_job_that_wants_to_be_spread_has_its_way() -> None:
    plan = placed(Consolidate(), NODES, *OTHERS, a_job("gang").needs(4).laid(PlacementMode.SPREAD))
    assert sorted(gpus_of(plan, "gang")) == ["m/2", "m/3", "n/2", "n/3"]
