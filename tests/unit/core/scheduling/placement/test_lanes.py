"""Which GPUs a job shares, and when it rather waits.

GPUs are called ``<node>/<index>``."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.lanes import LaneRules
from laneway.scheduling import (
    NEVER_FITS,
    ClusterSnapshot,
    Demand,
    Job,
    JobState,
    Node,
    PlacementMode,
    Profile,
)
from laneway.scheduling.model.snapshot import StageSeconds
from laneway.scheduling.placement.lanes import Lanes

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import GIB, NOW, JobBuilder, a_job, a_node, eager, gpus_of
from tests.unit.core.scheduling.placement.placing import placed
from tests.unit.core.scheduling.whole_plan import plan

SHARED = 400
"""Percent that a GPU offers: four jobs that each want a whole one."""

READS = StageSeconds(0.4, 0.4, 0.1, 0.0)
COMPUTES = StageSeconds(0.0, 0.0, 0.95, 0.05)


def shared(name: str, gpus: int = 4, **more: object) -> Node:
    return a_node(name, gpus, percent=SHARED, **more)  # type: ignore[arg-type]


def does(stages: StageSeconds | None, job: JobBuilder, gib: int = 1) -> JobBuilder:
    """A job with a profile: the stages of its iterations, and a worker's total memory."""
    profile = Profile(gib * GIB // 2, gib * GIB // 2, iteration_seconds=1.0, stages=stages)
    return JobBuilder(replace(job.made, profile=profile))


def test_an_empty_gpu_is_taken_while_there_is_one() -> None:
    old = does(READS, a_job("old")).runs_on("n/0")
    found = placed(Lanes(), [shared("n", 2)], old, does(COMPUTES, a_job("new")))
    assert gpus_of(found, "new") == ["n/1"]


def test_empty_gpus_are_taken_of_as_few_nodes_as_can_be() -> None:
    old = does(READS, a_job("old")).runs_on("m/0")
    found = placed(Lanes(), [shared("l"), shared("m"), shared("n")], old, does(READS, a_job("gang").needs(3)))
    assert gpus_of(found, "gang") == ["m/1", "m/2", "m/3"]


def test_who_computes_joins_who_reads_and_who_reads_joins_who_computes() -> None:
    old = (does(READS, a_job("reads")).runs_on("n/0"), does(COMPUTES, a_job("computes")).runs_on("n/1"))
    found = placed(
        Lanes(),
        [shared("n", 2)],
        *old,
        does(COMPUTES, a_job("a")).created(1),
        does(READS, a_job("b")).created(2),
    )
    assert gpus_of(found, "a") == ["n/0"]
    assert gpus_of(found, "b") == ["n/1"]


def test_a_gang_joins_on_the_node_where_it_gains_most() -> None:
    gangs = (
        does(COMPUTES, a_job("x").needs(4)).runs_on(*(f"m/{at}" for at in range(4))),
        does(READS, a_job("y").needs(4)).runs_on(*(f"n/{at}" for at in range(4))),
    )
    found = placed(Lanes(), [shared("m"), shared("n")], *gangs, does(COMPUTES, a_job("gang").needs(2)))
    assert gpus_of(found, "gang") == ["n/0", "n/1"]


def test_who_is_small_joins_the_small_and_does_not_hold_up_a_gang() -> None:
    gang = does(READS, a_job("gang").needs(3)).runs_on("n/0", "n/1", "n/2")
    single = does(READS, a_job("single")).runs_on("n/3")
    found = placed(Lanes(), [shared("n")], gang, single, does(COMPUTES, a_job("new")))
    assert gpus_of(found, "new") == ["n/3"]


def test_who_would_gain_too_little_waits() -> None:
    old = does(COMPUTES, a_job("old")).runs_on("n/0")
    found = placed(Lanes(), [shared("n", 1)], old, does(COMPUTES, a_job("new")))
    assert not found.starts
    alike = does(READS, a_job("alike")).runs_on("n/0")
    assert placed(Lanes(), [shared("n", 1)], alike, does(READS, a_job("new"))).starts
    assert not placed(Lanes(min_gain_ratio=0.5), [shared("n", 1)], alike, does(READS, a_job("new"))).starts


@pytest.mark.parametrize("bounded", ["old", "new"])
@pytest.mark.parametrize(("slowdown", "joins"), [(0.0, False), (0.1, True)])
def test_nobody_joins_where_one_of_them_is_bound_to_lose_more_than_it_may(
    bounded: str, slowdown: float, joins: bool
) -> None:
    """Both need the GPU for 105 percent of the time together: they lose 5 percent at least."""
    bounds = {bounded: slowdown}

    def job(name: str, stages: StageSeconds) -> JobBuilder:
        return does(stages, a_job(name).needs(max_slowdown_ratio=bounds.get(name, 1.0)))

    found = placed(
        Lanes(), [shared("n", 1)], job("old", READS).runs_on("n/0"), job("new", COMPUTES).created(1)
    )
    assert bool(found.starts) is joins


def test_who_could_not_leave_again_joins_only_where_all_are_predicted_to_keep_their_speed() -> None:
    old = does(READS, a_job("old").needs(max_slowdown_ratio=0.2)).runs_on("n/0")
    new = does(COMPUTES, a_job("new"))
    assert placed(Lanes(), [shared("n", 1)], old, new).starts
    assert not placed(Lanes(), [shared("n", 1)], old, new.never_preempted()).starts


def test_memory_decides_before_speed() -> None:
    """The reading job leaves no memory for separate lanes, nor for a shared lane: its persistent memory is
    too large."""
    old = (
        does(READS, a_job("reads"), gib=40).runs_on("n/0"),
        does(StageSeconds(0, 0, 0.3, 0), a_job("idles"), gib=4).runs_on("n/1"),
    )
    found = placed(Lanes(), [shared("n", 2)], *old, does(COMPUTES, a_job("new"), gib=30))
    assert gpus_of(found, "new") == ["n/1"]


def test_gangs_share_a_gpu_only_in_lanes_of_their_own() -> None:
    node = shared("n", 2, lanes=LaneRules(max_lanes=1, padding_percent=0))
    old = does(READS, a_job("old").needs(2)).runs_on("n/0", "n/1")
    found = placed(
        Lanes(),
        [node],
        old,
        does(COMPUTES, a_job("gang").needs(2)).created(1),
        does(COMPUTES, a_job("single")),
    )
    assert list(found.starts) == ["single"]


@pytest.mark.parametrize("there", [None, READS], ids=["unknown there", "known there"])
@pytest.mark.parametrize("comes", [None, READS], ids=["unknown comes", "known comes"])
def test_a_job_is_alone_until_its_iterations_were_measured(
    there: StageSeconds | None, comes: StageSeconds | None
) -> None:
    known = there is not None and comes is not None
    old, new = does(there, a_job("old")).runs_on("n/0"), does(comes, a_job("new"))
    assert bool(placed(Lanes(), [shared("n", 1)], old, new).starts) is known
    assert gpus_of(placed(Lanes(), [shared("n", 2)], old, new), "new") == ["n/1"]


def test_a_small_share_without_a_profile_joins_nobody_beyond_the_gpus_time() -> None:
    """Its quota would fit beside the other's memory."""
    old, new = does(READS, a_job("old")).runs_on("n/0"), a_job("new").share(10)
    assert not placed(Lanes(), [shared("n", 1)], old, new).starts


@pytest.mark.parametrize(
    ("mode", "want"), [(PlacementMode.SPREAD, ["m/0", "n/0"]), (PlacementMode.CONSOLIDATE, ["m/0", "m/1"])]
)
def test_a_job_has_its_own_mode(mode: PlacementMode, want: list[str]) -> None:
    found = placed(Lanes(), [shared("m"), shared("n")], does(READS, a_job("gang").needs(2).laid(mode)))
    assert gpus_of(found, "gang") == want


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        (PlacementMode.SPREAD, {"m": 1, "n": 1, "o": 1}),
        (PlacementMode.CONSOLIDATE, {"o": 3}),
    ],
)
def test_a_mode_counts_a_node_once_whatever_classes_its_gpus_have(
    mode: PlacementMode, want: dict[str, int]
) -> None:
    mixed = shared("o", 3)
    first, *others = mixed.gpus
    mixed = replace(mixed, gpus=(replace(first, model="another"), *others))
    gang = does(READS, a_job("gang").needs(3).laid(mode))
    found = placed(Lanes(), [shared("m", 1), shared("n", 1), mixed], gang)
    assert Counter(gpu.split("/")[0] for gpu in gpus_of(found, "gang")) == want


def test_a_gang_keeps_to_one_model_of_gpus_where_it_can() -> None:
    nodes = [shared("m", 2, model="T4", memory=16 * GIB), shared("n", 3)]
    found = placed(Lanes(), nodes, does(READS, a_job("gang").needs(3)))
    assert gpus_of(found, "gang") == ["n/0", "n/1", "n/2"]
    mixed = placed(Lanes(), nodes, does(READS, a_job("gang").needs(5)))
    assert len(set(gpus_of(mixed, "gang"))) == 5


def test_a_worker_with_several_gpus_has_them_on_one_node() -> None:
    found = placed(
        Lanes(), [shared("m", 3), shared("n", 3)], does(READS, a_job("g").needs(2, gpus_per_worker=2))
    )
    assert [worker.gpus for worker in found.starts["g"]] == [("m/0", "m/1"), ("n/0", "n/1")]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("min_gain_ratio", 1.5, "min_gain_ratio is 1.5: write 0 to 1"),
        ("keep_gain_ratio", -0.1, "keep_gain_ratio is -0.1: write 0 to 1"),
        ("keep_gain_ratio", 0.2, "keep_gain_ratio is 0.2: write at most min_gain_ratio, 0.1"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(name: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Lanes(**{name: value})


quick = settings(max_examples=examples(60))
BY_LANES = replace(eager("fifo", strict=False), placement=Lanes())


@st.composite
def jobs(draw: st.DrawFn, key: str) -> Job:
    stages = draw(st.sampled_from([READS, COMPUTES, None]))
    profile = draw(st.sampled_from([None, Profile(GIB, 8 * GIB, iteration_seconds=1.0, stages=stages)]))
    demand = Demand(
        draw(st.sampled_from([1, 1, 2, 3])),
        gpus_per_worker=draw(st.sampled_from([1, 1, 1, 2])),
        mode=draw(st.sampled_from(list(PlacementMode))),
    )
    return Job(key, demand, float(draw(st.integers(0, 9))), profile=profile)


@st.composite
def held(draw: st.DrawFn) -> ClusterSnapshot:
    """A cluster on which some jobs run, made by the policy itself; ``plan`` refuses a plan that breaks an invariant."""
    nodes = tuple(shared(f"n{at}", draw(st.integers(1, 3))) for at in range(draw(st.integers(1, 3))))
    old = tuple(draw(jobs(f"ns/old{at}")) for at in range(draw(st.integers(0, 6))))
    starts = plan(ClusterSnapshot(nodes, old), NOW, BY_LANES).starts
    return ClusterSnapshot(
        nodes,
        tuple(
            replace(job, state=JobState.RUNNING, placement=starts[job.key], started_seconds=NOW)
            for job in old
            if job.key in starts
        ),
    )


@quick
@given(held(), jobs("ns/new"))
def test_the_order_of_the_lists_changes_nothing(snapshot: ClusterSnapshot, new: Job) -> None:
    full = replace(snapshot, jobs=(*snapshot.jobs, new))
    mixed = replace(
        full,
        jobs=full.jobs[::-1],
        nodes=tuple(replace(node, gpus=node.gpus[::-1]) for node in full.nodes[::-1]),
    )
    assert plan(full, NOW, BY_LANES).starts == plan(mixed, NOW, BY_LANES).starts


@quick
@given(held(), jobs("ns/new"))
def test_a_job_alone_starts_or_never_fits(snapshot: ClusterSnapshot, new: Job) -> None:
    found = plan(replace(snapshot, jobs=(new,)), NOW, BY_LANES)
    if new.key in found.waiting:
        assert found.waiting[new.key].code in NEVER_FITS


def test_of_a_large_cluster_not_all_gpus_are_compared_and_yet_whatever_fits_starts() -> None:
    """A gang whose workers need two GPUs of one node each: of the first 256 that can be joined, no two are of one node."""
    odd = [shared(f"m{at:03}", 1) for at in range(300)]
    found = placed(Lanes(), [*odd, shared("n", 2)], does(READS, a_job("wide").needs(1, gpus_per_worker=2)))
    assert gpus_of(found, "wide") == ["n/0", "n/1"]
