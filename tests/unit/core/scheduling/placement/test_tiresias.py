"""Tiresias' rule: only skewed models are consolidated."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.scheduling import PlacementMode, Plan, Profile
from laneway.scheduling.placement.tiresias import TiresiasPlacement

from tests.unit.core.scheduling.builders import GIB, JobBuilder, a_job, a_node, gpus_of
from tests.unit.core.scheduling.placement.placing import in_rack, placed

NODES = [a_node("m", 4), a_node("n", 4)]
OTHERS = [a_job("x").needs(2).runs_on("m/0", "m/1"), a_job("y").needs(2).runs_on("n/0", "n/1")]
VGG16 = Profile(GIB, GIB, model_bytes=553_430_176, largest_tensor_bytes=411_041_792)
RESNET50 = Profile(GIB, GIB, model_bytes=102_228_128, largest_tensor_bytes=9_437_184)
UNMEASURED = Profile(GIB, GIB)


def of_model(profile: Profile | None, workers: int = 4) -> JobBuilder:
    return JobBuilder(replace(a_job("gang").needs(workers).created(5).made, profile=profile))


@pytest.mark.parametrize(
    ("story", "profile", "policy", "waits"),
    [
        ("a skewed model waits for one node", VGG16, TiresiasPlacement(), True),
        ("one that is not takes what is free", RESNET50, TiresiasPlacement(), False),
        ("so does one that nobody has measured", None, TiresiasPlacement(), False),
        ("or whose tensors nobody has", UNMEASURED, TiresiasPlacement(), False),
        ("unless it is to be careful", None, TiresiasPlacement(consolidate_unprofiled=True), True),
        ("with a threshold of 1 nobody waits", VGG16, TiresiasPlacement(skew_threshold_ratio=1.0), False),
        ("with one of 0 everybody does", RESNET50, TiresiasPlacement(skew_threshold_ratio=0.0), True),
    ],
)
def test_who_waits_for_fewer_nodes(
    story: str, profile: Profile | None, policy: TiresiasPlacement, waits: bool
) -> None:
    assert ("gang" in placed(policy, NODES, *OTHERS, of_model(profile)).waiting) == waits, story


def test_a_model_that_is_not_skewed_fills_fragments_and_leaves_whole_nodes() -> None:
    nodes = [a_node("l", 4), a_node("m", 4), a_node("n", 4)]
    others = [
        a_job("x").needs(3).runs_on("m/0", "m/1", "m/2"),
        a_job("y").needs(2).runs_on("n/0", "n/1"),
    ]
    policy = TiresiasPlacement()
    assert gpus_of(placed(policy, nodes, *others, of_model(RESNET50, 3)), "gang") == ["m/3", "n/2", "n/3"]
    assert gpus_of(placed(policy, nodes, *others, of_model(VGG16, 3)), "gang") == ["l/0", "l/1", "l/2"]


def test_a_skewed_gang_prefers_one_rack_and_does_not_wait_for_it() -> None:
    nodes = [in_rack(rack, a_node(f"{rack}{number}", 4)) for number in range(2) for rack in "rs"]
    gang = of_model(VGG16, 8)
    taken = [a_job("x").needs(4).runs_on(*(f"r0/{index}" for index in range(4)))]
    assert nodes_of(placed(TiresiasPlacement(), nodes, *taken, gang)) == {"s0", "s1"}
    taken.append(a_job("y").needs(4).runs_on(*(f"s0/{index}" for index in range(4))))
    assert nodes_of(placed(TiresiasPlacement(), nodes, *taken, gang)) == {"r1", "s1"}
    consolidated = JobBuilder(gang.laid(PlacementMode.CONSOLIDATE).made)
    assert nodes_of(placed(TiresiasPlacement(), nodes, *taken, consolidated)) == {"r1", "s1"}


def nodes_of(plan: Plan) -> set[str]:
    return {worker.node for worker in plan.starts["gang"]}


def test_what_the_job_says_itself_comes_first() -> None:
    spread = JobBuilder(of_model(VGG16).laid(PlacementMode.SPREAD).made)
    assert "gang" in placed(TiresiasPlacement(), NODES, *OTHERS, spread).starts
    consolidated = JobBuilder(of_model(RESNET50).laid(PlacementMode.CONSOLIDATE).made)
    assert "gang" in placed(TiresiasPlacement(), NODES, *OTHERS, consolidated).waiting
