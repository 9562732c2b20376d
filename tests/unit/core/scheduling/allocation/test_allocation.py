"""Who gets which CPUs and which memory."""

from __future__ import annotations

import pytest
from laneway.scheduling.allocation.greedy import Greedy
from laneway.scheduling.allocation.optimal import Optimal
from laneway.scheduling.allocation.policy import AllocationPolicy, NodeCapacity, PlacedGang
from laneway.scheduling.allocation.proportional import Proportional
from laneway.scheduling.allocation.tune import Tune
from laneway.scheduling.model.plan import WorkerAllotment
from laneway.scheduling.model.sensitivity import MeasuredSensitivity

from tests.unit.core.scheduling.allocation.builders import GIB, HUNGRY, MODEST, cpu_curve, gang, node

FAIR: tuple[AllocationPolicy, ...] = (Tune(), Optimal())
ALL: tuple[AllocationPolicy, ...] = (Proportional(), Greedy(), Tune(), Optimal())


EXCHANGE = (
    cpu_curve({3: 20.0, 5: 25.0, 9: 27.0}),
    cpu_curve({1: 10.0, 7: 12.0, 9: 22.0}),
    cpu_curve({5: 1.0, 10: 6.0, 12: 26.0}),
    cpu_curve({2: 10.0, 9: 12.0, 10: 17.0}),
)
"""Jobs of which tuning, step by step, does not find the best division."""


def cpus(allotted: dict[str, tuple[WorkerAllotment, ...]]) -> dict[str, list[int]]:
    """CPU millis of each worker by gang."""
    return {key: [worker.cpu_millis for worker in workers] for key, workers in allotted.items()}


def test_proportional_goes_by_gpus_alone() -> None:
    gangs = [gang("a", ("n1", 400), profile=HUNGRY), gang("b", ("n1", 100)), gang("c", ("n1", 50))]
    allotted = Proportional().allot([node()], gangs)
    assert cpus(dict(allotted)) == {"a": [12_000], "b": [3000], "c": [1500]}
    assert allotted["b"][0].memory_bytes == 64 * GIB


def test_greedy_strands_gpus_for_which_no_cpus_are_left() -> None:
    gangs = [gang(f"{number}", ("n1", 100), profile=HUNGRY, position=number) for number in range(8)]
    allotted = cpus(dict(Greedy().allot([node()], gangs)))
    assert allotted == {f"{number}": [12_000 if number < 2 else 0] for number in range(8)}


@pytest.mark.parametrize("policy", FAIR, ids=lambda policy: type(policy).__name__)
def test_what_modest_jobs_leave_goes_to_hungry_ones(policy: AllocationPolicy) -> None:
    gangs = [gang("hungry", ("n1", 100), profile=HUNGRY)]
    gangs += [gang(f"modest-{number}", ("n1", 100), profile=MODEST) for number in range(7)]
    allotted = cpus(dict(policy.allot([node()], gangs)))
    assert allotted.pop("hungry") == [12_000]
    assert all(worker <= 1000 for workers in allotted.values() for worker in workers)


@pytest.mark.parametrize("policy", FAIR, ids=lambda policy: type(policy).__name__)
def test_where_all_are_hungry_everybody_has_the_proportional_share(policy: AllocationPolicy) -> None:
    gangs = [gang(f"{number}", ("n1", 100), profile=HUNGRY, position=number) for number in range(8)]
    assert cpus(dict(policy.allot([node()], gangs))) == {f"{number}": [3000] for number in range(8)}


@pytest.mark.parametrize("policy", FAIR, ids=lambda policy: type(policy).__name__)
def test_it_is_taken_from_those_that_lose_least(policy: AllocationPolicy) -> None:
    steep = cpu_curve({3: 30.0, 12: 120.0})
    shallow = cpu_curve({3: 30.0, 12: 36.0})
    gangs = [
        gang("shallow", ("n1", 100), profile=shallow),
        gang("steep", ("n1", 100), profile=steep, position=1),
    ]
    gangs += [gang(f"plain-{number}", ("n1", 100), position=2) for number in range(3)]
    allotted = cpus(dict(policy.allot([node(cpus=24)], gangs)))
    assert allotted["steep"][0] == 12_000
    assert allotted["shallow"][0] == 3000
    assert allotted["plain-0"] == [3000]


@pytest.mark.parametrize("policy", FAIR, ids=lambda policy: type(policy).__name__)
def test_gpus_that_are_free_lend_their_share(policy: AllocationPolicy) -> None:
    assert cpus(dict(policy.allot([node()], [gang("a", ("n1", 100), profile=HUNGRY)]))) == {"a": [12_000]}


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: type(policy).__name__)
def test_a_job_without_a_profile_has_its_proportional_share(policy: AllocationPolicy) -> None:
    gangs = [gang("known", ("n1", 100), profile=MODEST), gang("unknown", ("n1", 200), ("n2", 100))]
    allotted = policy.allot([node(), node("n2", cpus=64)], gangs)
    assert cpus(dict(allotted))["unknown"] == [6000, 8000]
    assert [worker.memory_bytes for worker in allotted["unknown"]] == [128 * GIB, 64 * GIB]


@pytest.mark.parametrize("policy", FAIR, ids=lambda policy: type(policy).__name__)
def test_a_gang_gets_no_more_than_its_slowest_worker_can_use(policy: AllocationPolicy) -> None:
    """A crowded node holds the gang at its share there; CPUs beyond that are of no use on the empty one."""
    crowd = [gang(f"hungry-{number}", ("crowded", 100), profile=HUNGRY) for number in range(7)]
    spans = gang("spans", ("crowded", 100), ("empty", 100), profile=HUNGRY)
    allotted = cpus(dict(policy.allot([node("crowded"), node("empty")], [*crowd, spans])))
    assert allotted["spans"] == [3000, 3000]


@pytest.mark.parametrize("policy", FAIR, ids=lambda policy: type(policy).__name__)
def test_on_unlike_nodes_the_poorer_share_sets_the_pace(policy: AllocationPolicy) -> None:
    """The gang's worker on the rich node needs no more than the throughput that the other one allows."""
    rich, poor = node("rich", gpus=2, cpus=24), node("poor", gpus=2, cpus=6)
    gangs = [gang("spans", ("rich", 100), ("poor", 100), profile=HUNGRY, position=1)]
    gangs += [gang(name, (name, 100), profile=HUNGRY) for name in ("rich", "poor")]
    allotted = cpus(dict(policy.allot([rich, poor], gangs)))
    assert allotted == {"spans": [3000, 3000], "rich": [12_000], "poor": [3000]}


@pytest.mark.parametrize("policy", FAIR, ids=lambda policy: type(policy).__name__)
def test_half_a_gpu_asks_for_half(policy: AllocationPolicy) -> None:
    allotted = policy.allot([node()], [gang("half", ("n1", 50), profile=MODEST)])
    assert cpus(dict(allotted)) == {"half": [500]}
    assert allotted["half"][0].memory_bytes == 4 * GIB


@pytest.mark.parametrize("policy", FAIR, ids=lambda policy: type(policy).__name__)
def test_memory_is_divided_as_cpus_are(policy: AllocationPolicy) -> None:
    """One job's throughput rises with its cache; the others leave it their memory."""
    caching = MeasuredSensitivity.from_throughputs({(1000, 32 * GIB): 1.0, (1000, 256 * GIB): 4.0})
    gangs = [gang("caching", ("n1", 100), profile=caching)]
    gangs += [gang(f"modest-{number}", ("n1", 100), profile=MODEST) for number in range(7)]
    allotted = policy.allot([node()], gangs)
    assert allotted["caching"][0].memory_bytes == pytest.approx(256 * GIB, rel=0.02)


def test_a_profile_that_does_not_reach_down_to_the_share_falls_back_on_it() -> None:
    large = cpu_curve({1: 1.0}, memory_bytes=200 * GIB)  # never measured with the 64 GiB of a share
    gangs = [gang(f"{number}", ("n1", 100), profile=large) for number in range(8)]
    allotted = Tune().allot([node()], gangs)
    assert sorted(workers[0].memory_bytes // GIB for workers in allotted.values())[:6] == [64] * 6


def together(policy: AllocationPolicy, *profiles: MeasuredSensitivity, cpus: int = 16) -> float:
    """Throughput of jobs with these profiles, a GPU each, on a node with half of its GPUs free and few CPUs."""
    gangs = [gang(f"{number}", ("n1", 100), profile=profile) for number, profile in enumerate(profiles)]
    allotted = policy.allot([node(gpus=8, cpus=cpus)], gangs)
    return sum(
        profile.ratio(allotted[f"{number}"][0].cpu_millis, allotted[f"{number}"][0].memory_bytes)
        for number, profile in enumerate(profiles)
    )


def test_the_optimum_sees_an_exchange_that_tuning_does_not() -> None:
    """Tuning takes one step at a time, each the best for itself; the program weighs all of them together."""
    assert together(Optimal(), *EXCHANGE) > together(Tune(), *EXCHANGE) > together(Proportional(), *EXCHANGE)


def test_on_steady_curves_single_steps_down_find_the_optimum() -> None:
    jobs = (
        cpu_curve({4: 13.0, 6: 14.0, 8: 26.0}),
        cpu_curve({3: 11.0, 4: 19.0, 6: 26.0}),
        cpu_curve({4: 3.0, 8: 17.0, 12: 22.0}),
        cpu_curve({6: 14.0, 9: 18.0, 11: 27.0}),
    )
    best = together(Optimal(), *jobs, cpus=20)
    assert together(Tune(), *jobs, cpus=20) == pytest.approx(best, abs=1e-9)
    assert together(Proportional(), *jobs, cpus=20) < 0.8 * best


def test_the_optimum_counts_each_node_of_a_gang() -> None:
    """A gang without a profile keeps its share of both nodes; on each, the exchange pays as on a node alone."""
    gangs = [gang("spans", ("n1", 800), ("n2", 800))]
    gangs += [
        gang(f"{name}-{number}", (name, 100), profile=profile)
        for name in ("n1", "n2")
        for number, profile in enumerate(EXCHANGE)
    ]
    nodes = [node("n1", gpus=16, cpus=32), node("n2", gpus=16, cpus=32)]
    worth = {}
    for policy in (Tune(), Optimal()):
        allotted = cpus(dict(policy.allot(nodes, gangs)))
        assert allotted["spans"] == [16_000, 16_000]
        worth[type(policy)] = [
            sum(
                profile.ratio(allotted[f"{name}-{number}"][0], 512 * GIB)
                for number, profile in enumerate(EXCHANGE)
            )
            for name in ("n1", "n2")
        ]
    assert worth[Optimal] == pytest.approx([together(Optimal(), *EXCHANGE)] * 2)
    assert all(best > tuned for best, tuned in zip(worth[Optimal], worth[Tune], strict=True))


def test_the_optimum_passes_its_limits_to_the_solver(solver_options: list[dict[str, float]]) -> None:
    together(Optimal(gap_ratio=0.03, node_limit=7), *EXCHANGE)
    assert solver_options == [{"mip_rel_gap": 0.03, "node_limit": 7}]


def test_tuning_is_not_fooled_by_a_curve_that_is_flat_first_and_steep_then() -> None:
    """Going down alone, the first job is left on its plateau with ten CPUs, where it is no faster than with two."""
    jobs = (
        cpu_curve({10: 1.0, 11: 6.0, 12: 16.0}),
        cpu_curve({4: 10.0, 5: 12.0, 11: 22.0}),
        cpu_curve({2: 20.0, 3: 30.0, 5: 32.0}),
        cpu_curve({2: 10.0, 11: 11.0, 12: 13.0}),
    )
    assert together(Tune(), *jobs) >= 0.9 * together(Optimal(), *jobs)


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize(
    ("nodes", "gangs", "message"),
    [
        ([node()], [gang("a", ("n2", 100))], "is on node n2, which is not among"),
        ([node()], [gang("a", ("n1", 900))], "900 percent of GPUs are placed on node n1, which has 800"),
        ([node()], [gang("a", ("n1", 100)), gang("a", ("n1", 100))], "given twice"),
    ],
)
def test_a_placement_that_cannot_be_is_refused(
    policy: AllocationPolicy, nodes: list[NodeCapacity], gangs: list[PlacedGang], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        policy.allot(nodes, gangs)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tolerance_ratio": 1.0}, "tolerance_ratio is 1.0"),
        ({"cpu_step_millis": 0}, "cpu_step_millis is 0"),
        ({"gap_ratio": -1.0}, "gap_ratio is -1.0"),
        ({"gap_ratio": 1.0}, "gap_ratio is 1.0"),
        ({"node_limit": 0}, "node_limit is 0"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Optimal(**parameters)  # type: ignore[arg-type]


def test_the_limits_of_the_parameters_are_allowed() -> None:
    for policy in (Optimal(gap_ratio=0.0), Optimal(node_limit=1), Optimal(tolerance_ratio=0.0)):
        assert together(policy, *EXCHANGE) >= together(Tune(), *EXCHANGE)
