"""Properties of every division of CPUs and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling.allocation.floors import allot_with_floors
from laneway.scheduling.allocation.greedy import Greedy
from laneway.scheduling.allocation.minio import MinIOSensitivity
from laneway.scheduling.allocation.optimal import Optimal
from laneway.scheduling.allocation.policy import (
    MEBIBYTE,
    AllocationPolicy,
    NodeCapacity,
    PlacedGang,
    PlacedWorker,
)
from laneway.scheduling.allocation.proportional import Proportional
from laneway.scheduling.allocation.shares import throughput_ratio
from laneway.scheduling.allocation.tune import Tune
from laneway.scheduling.model.plan import WorkerAllotment
from laneway.scheduling.model.sensitivity import MeasuredSensitivity, Sensitivity

from tests.support.property_examples import examples
from tests.unit.core.scheduling.allocation.builders import GIB

quick = settings(max_examples=examples(60))
ALL: tuple[AllocationPolicy, ...] = (Proportional(), Greedy(), Tune(), Optimal())
ROUNDING = 1e-6
Allotted = Mapping[str, tuple[WorkerAllotment, ...]]


@dataclass(frozen=True)
class Case:
    nodes: tuple[NodeCapacity, ...]
    gangs: tuple[PlacedGang, ...]

    def worth(self, allotted: Allotted) -> float:
        """Throughput of all gangs together, in GPUs."""
        return sum(self.ratio(gang, allotted) * gang.gpu_percent / 100 for gang in self.gangs)

    def ratio(self, gang: PlacedGang, allotted: Allotted) -> float:
        if gang.sensitivity is None:
            return 0.0
        return throughput_ratio(gang.sensitivity, gang.workers, allotted[gang.key])


@st.composite
def profiles(draw: st.DrawFn) -> Sensitivity:
    cpus = draw(st.lists(st.integers(1, 16), min_size=1, max_size=4, unique=True))
    with_cache = draw(st.booleans())
    memories = draw(st.lists(st.integers(1, 128), min_size=1, max_size=1 if with_cache else 3, unique=True))
    table = MeasuredSensitivity.from_throughputs(
        {
            (1000 * cpu, memory * GIB): draw(st.floats(0.1, 10))
            for cpu in sorted(cpus)
            for memory in sorted(memories)
        }
    )
    if not with_cache:
        return table
    return MinIOSensitivity(
        table, draw(st.integers(1, 400)) * GIB, 100e6, draw(st.sampled_from([1e7, 5e7, 2e8]))
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes = tuple(
        NodeCapacity(
            f"n{number}",
            100 * draw(st.sampled_from([1, 2, 4, 8])),
            draw(st.integers(0, 40_000)),
            draw(st.integers(0, 400 * GIB)),
        )
        for number in range(draw(st.integers(1, 3)))
    )
    known = draw(st.lists(profiles(), min_size=1, max_size=3))
    free = {node.node: node.gpu_percent for node in nodes}
    gangs: list[PlacedGang] = []
    for number in range(draw(st.integers(1, 8))):
        workers: list[PlacedWorker] = []
        for rank in range(draw(st.sampled_from([1, 1, 2, 3]))):
            name = draw(st.sampled_from(sorted(free)))
            percent = min(free[name], draw(st.sampled_from([7, 50, 100, 200])))
            if percent:
                workers.append(PlacedWorker(rank, name, percent))
                free[name] -= percent
        if workers:
            profile = draw(st.sampled_from([*known, None]))
            gangs.append(PlacedGang(f"j{number}", tuple(workers), profile, draw(st.integers(0, 2))))
    return Case(nodes, tuple(gangs))


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: type(policy).__name__)
@given(case=cases())
@quick
def test_no_node_gives_more_than_it_has(policy: AllocationPolicy, case: Case) -> None:
    allotted = policy.allot(case.nodes, case.gangs)
    for node in case.nodes:
        held = [
            has
            for gang in case.gangs
            for worker, has in zip(gang.workers, allotted[gang.key], strict=True)
            if worker.node == node.node
        ]
        assert sum(has.cpu_millis for has in held) <= node.cpu_millis
        assert sum(has.memory_bytes for has in held) <= node.memory_bytes


@given(case=cases())
@quick
def test_each_worker_of_each_gang_is_named_and_gets_whole_numbers(case: Case) -> None:
    for policy in ALL:
        allotted = policy.allot(case.nodes, case.gangs)
        assert set(allotted) == {gang.key for gang in case.gangs}
        for gang in case.gangs:
            assert [has.worker for has in allotted[gang.key]] == [worker.worker for worker in gang.workers]
            for has in allotted[gang.key]:
                assert isinstance(has.cpu_millis, int)
                assert isinstance(has.memory_bytes, int)
                assert min(has.cpu_millis, has.memory_bytes) >= 0
                assert has.memory_bytes % MEBIBYTE == 0


@given(case=cases())
@quick
def test_nobody_does_worse_than_with_its_proportional_share(case: Case) -> None:
    share = Proportional().allot(case.nodes, case.gangs)
    for policy in (Tune(), Optimal()):
        allotted = policy.allot(case.nodes, case.gangs)
        for gang in case.gangs:
            if gang.sensitivity is None:
                assert allotted[gang.key] == share[gang.key]
            else:
                assert case.ratio(gang, allotted) >= case.ratio(gang, share) - ROUNDING


@given(case=cases())
@quick
def test_the_optimum_is_no_worse_than_tuning_and_tuning_than_shares(case: Case) -> None:
    proportional, tuned, best = (
        case.worth(policy.allot(case.nodes, case.gangs)) for policy in (Proportional(), Tune(), Optimal())
    )
    assert best >= tuned - ROUNDING
    assert tuned >= proportional - ROUNDING


@given(case=cases(), shuffled=st.randoms(use_true_random=False))
@quick
def test_how_nodes_and_gangs_are_listed_does_not_matter(case: Case, shuffled: st.DataObject) -> None:
    nodes, gangs = list(case.nodes), list(case.gangs)
    shuffled.shuffle(nodes)  # type: ignore[attr-defined]
    shuffled.shuffle(gangs)  # type: ignore[attr-defined]
    for policy in ALL:
        assert policy.allot(nodes, gangs) == policy.allot(case.nodes, case.gangs)


@given(one=cases(), other=cases())
@quick
def test_what_shares_no_node_can_be_divided_apart(one: Case, other: Case) -> None:
    far = Case(
        tuple(renamed_node(node) for node in other.nodes), tuple(renamed_gang(gang) for gang in other.gangs)
    )
    for policy in ALL:
        together = policy.allot([*one.nodes, *far.nodes], [*one.gangs, *far.gangs])
        apart = {**policy.allot(one.nodes, one.gangs), **policy.allot(far.nodes, far.gangs)}
        assert together == apart


def renamed_node(node: NodeCapacity) -> NodeCapacity:
    return NodeCapacity(f"far-{node.node}", node.gpu_percent, node.cpu_millis, node.memory_bytes)


def renamed_gang(gang: PlacedGang) -> PlacedGang:
    workers: Sequence[PlacedWorker] = [
        PlacedWorker(worker.worker, f"far-{worker.node}", worker.gpu_percent) for worker in gang.workers
    ]
    return PlacedGang(f"far-{gang.key}", tuple(workers), gang.sensitivity, gang.position)


@given(case=cases(), data=st.data())
@quick
def test_with_floors_nobody_falls_below_its_own_and_no_node_gives_more_than_it_has(
    case: Case, data: st.DataObject
) -> None:
    """Whatever the policy does: a worker's request is its own unless its job allows less."""
    left = {node.node: node.cpu_millis for node in case.nodes}
    gangs = []
    for gang in case.gangs:
        workers = []
        for worker in gang.workers:
            floor = data.draw(st.integers(0, left[worker.node]))
            left[worker.node] -= floor
            workers.append(replace(worker, cpu_floor_millis=floor))
        gangs.append(replace(gang, workers=tuple(workers)))
    for policy in ALL:
        allotted = allot_with_floors(policy, case.nodes, gangs)
        assert set(allotted) == {gang.key for gang in gangs}
        given_on = dict.fromkeys(left, 0)
        for gang in gangs:
            for worker, has in zip(gang.workers, allotted[gang.key], strict=True):
                assert has.cpu_millis >= worker.cpu_floor_millis
                given_on[worker.node] += has.cpu_millis
        assert all(given_on[node.node] <= node.cpu_millis for node in case.nodes)


@given(case=cases())
@quick
def test_without_floors_the_policy_decides_alone(case: Case) -> None:
    for policy in ALL:
        assert allot_with_floors(policy, case.nodes, case.gangs) == policy.allot(case.nodes, case.gangs)
