"""With `sharing: lanes`: GPUs of its own by the configured policy first, then beside others.

GPUs are called ``<node>/<index>``."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.api.gpu_sharing import ACTIVE_PERCENT, OFFERED_PERCENT
from laneway.scheduling import ForeignTenant, Node, Profile
from laneway.scheduling.model.snapshot import StageSeconds
from laneway.scheduling.placement.best_fit import BestFit
from laneway.scheduling.placement.consolidate import Consolidate
from laneway.scheduling.placement.joined import Joined
from laneway.scheduling.placement.lanes import Lanes
from laneway.scheduling.placement.policy import PlacementPolicy
from laneway.scheduling.placement.spread import Spread
from laneway.scheduling.placement.topology import Topology

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import GIB, JobBuilder, a_job, a_node, gpus_of
from tests.unit.core.scheduling.placement.placing import placed

READS = StageSeconds(0.4, 0.4, 0.1, 0.0)
COMPUTES = StageSeconds(0.0, 0.0, 0.95, 0.05)


def shared(name: str, gpus: int, **more: object) -> Node:
    """A node with `sharing: lanes`, as the scheduler counts its GPUs with the same switch."""
    node = a_node(name, gpus, percent=OFFERED_PERCENT["lanes"], **more)  # type: ignore[arg-type]
    active_percent = ACTIVE_PERCENT["lanes"]
    return replace(node, gpus=tuple(replace(gpu, active_percent=active_percent) for gpu in node.gpus))


def does(stages: StageSeconds, job: JobBuilder) -> JobBuilder:
    profile = Profile(GIB, GIB, iteration_seconds=1.0, stages=stages)
    return JobBuilder(replace(job.made, profile=profile))


@pytest.mark.parametrize(("alone", "want"), [(BestFit(), {"m/0", "m/1"}), (Spread(), {"m/0", "n/0"})])
def test_the_configured_policy_chooses_among_gpus_without_others(
    alone: PlacementPolicy, want: set[str]
) -> None:
    nodes = [shared("m", 2), shared("n", 3)]
    found = placed(Joined(alone, Lanes()), nodes, does(READS, a_job("gang").needs(2)))
    assert set(gpus_of(found, "gang")) == want


def test_a_job_joins_others_once_no_gpu_is_left_and_it_gains() -> None:
    there = [does(READS, a_job("reads")).runs_on("n/0"), does(COMPUTES, a_job("computes")).runs_on("n/1")]
    comes = [does(COMPUTES, a_job("a")).created(1), does(COMPUTES, a_job("b")).created(2)]
    found = placed(Joined(BestFit(), Lanes()), [shared("n", 2)], *there, *comes)
    assert gpus_of(found, "a") == ["n/0"]
    assert "b" not in found.starts, "it would gain nothing beside either"


def test_shares_of_one_gpu_need_no_profile_and_no_gain() -> None:
    there = a_job("old").share(60).runs_on("n/0")
    found = placed(Joined(BestFit(), Lanes()), [shared("n", 2)], there, a_job("new").share(40))
    assert gpus_of(found, "new") == ["n/0"], "the fullest, as without sharing"


def test_a_gang_takes_the_gpus_that_are_left_and_joins_on_the_others() -> None:
    there = does(READS, a_job("reads")).runs_on("n/0")
    found = placed(
        Joined(Topology(), Lanes()), [shared("n", 2)], there, does(COMPUTES, a_job("gang").needs(2))
    )
    assert sorted(gpus_of(found, "gang")) == ["n/0", "n/1"]


def test_a_gang_that_the_policy_keeps_on_few_nodes_joins_others_there_only() -> None:
    nodes = [shared("m", 2), shared("n", 2)]
    busy = [does(COMPUTES, a_job(name)).runs_on(f"{name}/0") for name in ("m", "n")]
    gang = does(COMPUTES, a_job("gang").needs(2))
    assert "gang" not in placed(Joined(Consolidate(), Lanes()), nodes, *busy, gang).starts
    assert "gang" in placed(Joined(BestFit(), Lanes()), nodes, *busy, gang).starts
    idle = does(READS, a_job("n")).runs_on("n/0")
    found = placed(Joined(Consolidate(), Lanes()), nodes, busy[0], idle, gang)
    assert sorted(gpus_of(found, "gang")) == ["n/0", "n/1"]


def test_a_pod_of_somebody_else_is_joined_by_nobody() -> None:
    node = shared("n", 1, foreign={0: [ForeignTenant("pod", 60)]})
    policy = Joined(BestFit(), Lanes())
    assert "new" not in placed(policy, [node], does(READS, a_job("new"))).starts
    assert gpus_of(placed(policy, [node], a_job("small").share(40)), "small") == ["n/0"]


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([10, 30, 50, 70, 100])), min_size=1, max_size=12),
    st.sampled_from([BestFit(), Spread(), Topology()]),
)
def test_without_a_gain_no_gpu_has_more_than_its_shares(
    wanted: list[tuple[int, int]], alone: PlacementPolicy
) -> None:
    jobs = [
        does(COMPUTES, a_job(f"j{at:02}").needs(workers, share_percent=share))
        for at, (workers, share) in enumerate(wanted)
    ]
    found = placed(Joined(alone, Lanes(min_gain_ratio=1.0)), [shared("m", 2), shared("n", 3)], *jobs)
    held = Counter[str]()
    for starts in found.starts.values():
        for worker in starts:
            held.update(dict.fromkeys(worker.gpus, worker.share_percent))
    assert found.starts
    assert max(held.values()) <= 100
