"""Properties of every placement policy, on clusters of mixed, partly held GPUs."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from laneway.lanes import LaneRules
from laneway.scheduling import (
    GPU,
    NEVER_FITS,
    ClusterSnapshot,
    Demand,
    Job,
    JobState,
    Node,
    PlacementMode,
    Plan,
    Policies,
    Profile,
)
from laneway.scheduling.placement.best_fit import BestFit
from laneway.scheduling.placement.consolidate import Consolidate
from laneway.scheduling.placement.count import Count
from laneway.scheduling.placement.fgd import FGD
from laneway.scheduling.placement.policy import PlacementPolicy
from laneway.scheduling.placement.spread import Spread
from laneway.scheduling.placement.tiresias import TiresiasPlacement
from laneway.scheduling.placement.topology import Topology

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import GIB, NOW, eager
from tests.unit.core.scheduling.placement.placing import in_rack
from tests.unit.core.scheduling.whole_plan import plan

quick = settings(max_examples=examples(60))

NEVER_WAITING: tuple[PlacementPolicy, ...] = (BestFit(), Count(), FGD(), Spread(), Topology())
"""These place a gang whenever it fits at all."""

ALL: tuple[PlacementPolicy, ...] = (*NEVER_WAITING, Consolidate(), TiresiasPlacement())
MEMORY_BYTES = {"A100": 40 * GIB, "T4": 16 * GIB}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Node, ...]:
    return tuple(_node(draw, f"n{number}") for number in range(draw(st.integers(1, 4))))


def _node(draw: st.DrawFn, name: str) -> Node:
    model = draw(st.sampled_from(sorted(MEMORY_BYTES)))
    percent = draw(st.sampled_from([100, 100, 200]))
    rules = LaneRules(max_lanes=draw(st.sampled_from([0, 0, 2])), padding_percent=5)
    count = draw(st.integers(1, 4))
    pairs = draw(st.booleans())
    gpus = tuple(
        GPU(
            f"{name}/{index}",
            name,
            index,
            model,
            MEMORY_BYTES[model],
            MEMORY_BYTES[model],
            percent,
            numa_node=draw(st.sampled_from([None, 0, 1])),
            nvlink_peers=frozenset({f"{name}/{index ^ 1}"} if pairs and index ^ 1 < count else ()),
            lane_rules=rules,
        )
        for index in range(count)
    )
    rack, zone = draw(st.sampled_from(["", "east", "west"])), draw(st.sampled_from(["", "z1", "z2"]))
    return in_rack(rack, Node(name, gpus), zone)


@st.composite
def waiting(draw: st.DrawFn, key: str) -> Job:
    kind = draw(st.sampled_from(["whole", "share", "memory", "exclusive"]))
    demand = Demand(
        workers=draw(st.sampled_from([1, 1, 1, 2, 2, 3, 5])),
        gpus_per_worker=draw(st.sampled_from([1, 1, 2, 3])) if kind in ("whole", "exclusive") else 1,
        share_percent=draw(st.integers(1, 100)) if kind == "share" else 100,
        memory_bytes=draw(st.sampled_from([2, 8, 15, 20])) * GIB if kind == "memory" else None,
        exclusive=kind == "exclusive",
        mode=draw(st.sampled_from(list(PlacementMode))),
    )
    profiles = [None, Profile(1 * GIB, 2 * GIB), Profile(GIB, GIB, model_bytes=100, largest_tensor_bytes=70)]
    return Job(key, demand, float(draw(st.integers(0, 9))), profile=draw(st.sampled_from(profiles)))


@st.composite
def held(draw: st.DrawFn) -> ClusterSnapshot:
    """A cluster on which some jobs run."""
    snapshot = ClusterSnapshot(
        draw(clusters()), tuple(draw(waiting(f"ns/old{n}")) for n in range(draw(st.integers(0, 5))))
    )
    decided = plan(snapshot, NOW, by(draw(st.sampled_from(NEVER_WAITING))))
    running = tuple(
        replace(job, state=JobState.RUNNING, placement=decided.starts[job.key], started_seconds=NOW)
        for job in snapshot.jobs
        if job.key in decided.starts
    )
    return replace(snapshot, jobs=running)


def by(policy: PlacementPolicy) -> Policies:
    return replace(eager("fifo", strict=False), placement=policy)


def decided_with(snapshot: ClusterSnapshot, policy: PlacementPolicy, *jobs: Job) -> Plan:
    """The plan for a snapshot with more jobs; ``plan`` itself refuses one that breaks an invariant."""
    return plan(replace(snapshot, jobs=(*snapshot.jobs, *jobs)), NOW, by(policy))


@quick
@given(held(), st.lists(waiting("ns/new"), min_size=1, max_size=4), st.sampled_from(ALL))
def test_what_is_placed_is_valid_and_no_more_nodes_are_taken_than_the_job_accepts(
    snapshot: ClusterSnapshot, jobs: list[Job], policy: PlacementPolicy
) -> None:
    jobs = [replace(job, key=f"ns/new{number}") for number, job in enumerate(jobs)]
    decided = decided_with(snapshot, policy, *jobs)
    for job in jobs:
        workers = decided.starts.get(job.key, ())
        assert len(workers) in (0, job.demand.workers)
        if workers and job.demand.mode is PlacementMode.CONSOLIDATE:
            alone = plan(ClusterSnapshot(snapshot.nodes, (job,)), NOW, by(BestFit())).starts[job.key]
            assert len({worker.node for worker in workers}) <= len({worker.node for worker in alone})


@quick
@given(held(), waiting("ns/new"), st.sampled_from(ALL), st.randoms(use_true_random=False))
def test_the_order_of_the_lists_changes_nothing(
    snapshot: ClusterSnapshot, job: Job, policy: PlacementPolicy, shuffled: random.Random
) -> None:
    mixed = replace(
        snapshot,
        jobs=tuple(shuffled.sample(snapshot.jobs, len(snapshot.jobs))),
        nodes=tuple(
            replace(node, gpus=tuple(shuffled.sample(node.gpus, len(node.gpus))))
            for node in shuffled.sample(snapshot.nodes, len(snapshot.nodes))
        ),
    )
    assert decided_with(snapshot, policy, job).starts == decided_with(mixed, policy, job).starts


@quick
@given(clusters(), waiting("ns/alone"))
def test_a_job_alone_on_an_empty_cluster_starts_or_never_fits(cluster: tuple[Node, ...], job: Job) -> None:
    for policy in ALL:
        decided = plan(ClusterSnapshot(cluster, (job,)), NOW, by(policy))
        if job.key in decided.waiting:
            assert decided.waiting[job.key].code in NEVER_FITS, policy


@quick
@given(held(), waiting("ns/new"))
def test_policies_that_do_not_wait_start_the_same_jobs(snapshot: ClusterSnapshot, job: Job) -> None:
    assume(job.demand.mode is PlacementMode.AUTO)
    started = {
        type(policy).__name__: job.key in decided_with(snapshot, policy, job).starts
        for policy in NEVER_WAITING
    }
    assert len(set(started.values())) == 1, started
