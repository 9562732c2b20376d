"""Workers by goodput."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling.elastic.policy import ElasticJob
from laneway.scheduling.elastic.pollux import Pollux
from laneway.scheduling.model.efficiency import Efficiency
from laneway.scheduling.model.goodput import BatchLimits, GoodputModel
from laneway.scheduling.model.throughput import ThroughputModel

from tests.support.property_examples import examples
from tests.unit.core.scheduling.elastic.builders import TRAINED, an_elastic


def mean_of_speedups(
    policy: Pollux, jobs: list[ElasticJob], allotted: Mapping[str, int], free: Mapping[str, int]
) -> float:
    """The sum that grows with the power mean of the waiting jobs' speedups over their fair shares."""
    gpus_per_node, fair_gpus = max(free.values()), math.ceil(sum(free.values()) / len(jobs))
    total = 0.0
    for job in jobs:
        fair_workers = min(max(fair_gpus // job.gpus_per_worker, job.min_workers), job.max_workers)
        speedup = 1e-3
        if allotted[job.key]:
            speedup += job.speed_on(allotted[job.key], gpus_per_node) / job.speed_on(
                fair_workers, gpus_per_node
            )
        weight = (1 + job.attained_service_gpu_seconds / 3600) ** -0.5
        power = policy.fairness
        total += weight * (math.log(speedup) if power == 0 else math.copysign(speedup**power, power))
    return total


@st.composite
def waiting_jobs(draw: st.DrawFn) -> list[ElasticJob]:
    """Jobs that scale well, badly or as assumed before they have run."""
    chatty = replace(TRAINED, throughput=replace(TRAINED.throughput, intranode_seconds_per_replica=0.1))
    return [
        an_elastic(
            f"default/{number}",
            min_workers=(least := draw(st.integers(1, 3))),
            max_workers=least + draw(st.integers(0, 8)),
            gpus_per_worker=draw(st.sampled_from([1, 1, 2])),
            attained_service_gpu_seconds=draw(st.sampled_from([0.0, 3600.0, 36_000.0])),
            goodput=draw(st.sampled_from([None, TRAINED, chatty])),
        )
        for number in range(draw(st.integers(1, 3)))
    ]


@pytest.mark.parametrize("fairness", [-1.0, 0.0, 0.5, 1.0])
@settings(max_examples=examples(30))
@given(jobs=waiting_jobs(), capacity=st.integers(1, 11))
def test_no_other_allotment_has_a_larger_mean_of_speedups(
    fairness: float, jobs: list[ElasticJob], capacity: int
) -> None:
    policy, free = Pollux(fairness=fairness), {"n0": capacity}
    best = max(
        mean_of_speedups(policy, jobs, dict(zip([job.key for job in jobs], counts, strict=True)), free)
        for counts in product(*(job.counts(capacity) for job in jobs))
        if sum(count * job.gpus_per_worker for count, job in zip(counts, jobs, strict=True)) <= capacity
    )
    allotted = policy.allot(jobs, free, 0.0)
    assert mean_of_speedups(policy, jobs, allotted, free) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("fairness", [-1.0, 0.0, 1.0])
def test_a_job_of_larger_samples_gets_as_many_workers(fairness: float) -> None:
    """Each of its steps takes ten times as long; its speedup by workers is the same."""
    model = TRAINED.throughput
    slow = ThroughputModel(*(10 * seconds for seconds in astuple(model)[:-1]), gamma=model.gamma)
    jobs = [an_elastic("default/a"), an_elastic("default/b", goodput=replace(TRAINED, throughput=slow))]
    assert set(Pollux(fairness=fairness).allot(jobs, {"n0": 8}, 0.0).values()) == {4}


def test_equal_jobs_get_equal_shares() -> None:
    jobs = [an_elastic(f"default/{number}") for number in range(4)]
    assert set(Pollux().allot(jobs, {"n0": 8, "n1": 8}, 0.0).values()) == {4}


def test_where_gpus_are_few_those_that_came_first_run() -> None:
    jobs = [an_elastic(f"default/{number}", created_seconds=float(number)) for number in range(4)]
    allotted = Pollux().allot(jobs, {"n0": 3}, 10.0)
    assert allotted == {"default/0": 1, "default/1": 1, "default/2": 1, "default/3": 0}


def test_a_job_that_has_had_much_service_weighs_less() -> None:
    jobs = [
        an_elastic("default/old", attained_service_gpu_seconds=360_000.0),
        an_elastic("default/young"),
    ]
    weighed = Pollux().allot(jobs, {"n0": 8}, 0.0)
    assert weighed["default/old"] < weighed["default/young"]
    alike = Pollux(service_exponent=0.0).allot(jobs, {"n0": 8}, 0.0)
    assert alike["default/old"] == alike["default/young"]


@pytest.mark.parametrize(
    ("age_seconds", "restarts", "workers"),
    [(20.0, 0, 4), (100_000.0, 0, 8), (3000.0, 90, 4)],
    ids=["a young job", "an old job", "one that was restarted often"],
)
def test_a_job_is_given_more_only_if_that_pays_the_restart(
    age_seconds: float, restarts: int, workers: int
) -> None:
    job = an_elastic(workers_by_node=(4,), restarts=restarts)
    assert Pollux().allot([job], {"n0": 8}, age_seconds) == {"default/a": workers}


def test_a_fair_share_is_a_whole_number_of_workers() -> None:
    """Each can have exactly its fair share, but not both; the fair share of 3 GPUs is one worker of the first job."""
    jobs = [
        an_elastic("default/a", max_workers=2, gpus_per_worker=2, goodput=None),
        an_elastic("default/b", min_workers=4, max_workers=4, goodput=None),
    ]
    assert Pollux(fairness=1.0).allot(jobs, {"n0": 5}, 0.0) == {"default/a": 1, "default/b": 0}


def test_how_long_ago_a_job_was_submitted_decides_not_the_clock() -> None:
    job = an_elastic(workers_by_node=(4,), created_seconds=100_000.0)
    assert Pollux().allot([job], {"n0": 8}, 100_020.0) == {"default/a": 4}
    assert Pollux().allot([job], {"n0": 8}, 200_000.0) == {"default/a": 8}


def test_a_job_that_has_only_begun_is_not_restarted_whatever_it_would_gain() -> None:
    perfect = GoodputModel(ThroughputModel(0.02, 0.001), Efficiency(128, 1e12), BatchLimits(65_536, 1024), 64)
    job = an_elastic(workers_by_node=(1,), goodput=perfect)
    assert Pollux().allot([job], {"n0": 64}, 0.0) == {"default/a": 1}
    assert Pollux().allot([job], {"n0": 64}, 10.0) == {"default/a": 64}


@pytest.mark.parametrize(("most", "workers"), [(4, 4), (8, 8)])
def test_where_restarts_cost_nothing_a_job_is_given_more_at_once(most: int, workers: int) -> None:
    job = an_elastic(max_workers=most, workers_by_node=(4,), goodput=None)
    assert Pollux(restart_seconds=0.0).allot([job], {"n0": 8}, 0.0) == {"default/a": workers}


def test_jobs_that_are_more_than_the_gpus_do_not_take_turns_at_each_decision() -> None:
    running = an_elastic(
        "default/a", max_workers=1, workers_by_node=(1,), attained_service_gpu_seconds=3600.0
    )
    waiting = an_elastic("default/b", max_workers=1, attained_service_gpu_seconds=3000.0)
    assert Pollux().allot([running, waiting], {"n0": 1}, 3600.0) == {"default/a": 1, "default/b": 0}
    eager = Pollux(stop_ratio=0.0)
    assert eager.allot([running, waiting], {"n0": 1}, 3600.0) == {"default/a": 0, "default/b": 1}


@pytest.mark.parametrize("goodput", [None, TRAINED], ids=["unknown", "trained"])
@pytest.mark.parametrize(
    ("service_gpu_seconds", "unit", "goes_on"),
    [(4400.0, 3600.0, True), (4600.0, 3600.0, False), (0.6, 0.5, True), (0.65, 0.5, False)],
)
def test_a_job_runs_until_its_weight_is_by_half_less_than_that_of_one_that_waits(
    goodput: GoodputModel | None, service_gpu_seconds: float, unit: float, goes_on: bool
) -> None:
    """The other weighs 1, it 1 / 1.5 once 1 + service / unit is 1.5 to the power of 2."""
    running = an_elastic(
        "default/a",
        max_workers=1,
        workers_by_node=(1,),
        attained_service_gpu_seconds=service_gpu_seconds,
        goodput=goodput,
    )
    waiting = an_elastic("default/b", max_workers=1, goodput=goodput)
    allotted = Pollux(service_gpu_seconds=unit).allot([running, waiting], {"n0": 1}, 36_000.0)
    assert allotted == {"default/a": int(goes_on), "default/b": int(not goes_on)}


def test_all_workers_of_a_running_job_count_before_it_is_stopped() -> None:
    """With one of its four workers it would weigh too little against the job that needs all GPUs."""
    running = an_elastic(
        "default/a", max_workers=4, workers_by_node=(4,), attained_service_gpu_seconds=5600.0, goodput=None
    )
    waiting = an_elastic("default/b", min_workers=4, max_workers=4, goodput=None)
    allotted = Pollux().allot([running, waiting], {"n0": 4}, 36_000.0)
    assert allotted == {"default/a": 4, "default/b": 0}


def test_a_job_that_has_had_many_times_the_service_is_stopped_for_one_that_waits() -> None:
    running = an_elastic(
        "default/a", max_workers=1, workers_by_node=(1,), attained_service_gpu_seconds=36_000.0
    )
    waiting = an_elastic("default/b", max_workers=1)
    assert Pollux().allot([running, waiting], {"n0": 1}, 36_000.0) == {"default/a": 0, "default/b": 1}


def test_a_running_job_makes_room_for_new_ones() -> None:
    running = an_elastic("default/old", workers_by_node=(8,))
    new = [an_elastic(f"default/new-{number}", created_seconds=5000.0, goodput=None) for number in range(3)]
    allotted = Pollux().allot([running, *new], {"n0": 8}, 5000.0)
    assert all(allotted[job.key] == 1 for job in new)
    assert 1 <= allotted["default/old"] <= 5


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"fairness": 2.0}, "fairness is 2.0: write a number up to 1"),
        ({"fairness": float("nan")}, "fairness is nan"),
        ({"restart_seconds": -1.0}, "restart_seconds is -1.0: write 0 or more"),
        ({"service_exponent": -1.0}, "service_exponent is -1.0"),
        ({"stop_ratio": -1.0}, "stop_ratio is -1.0"),
        ({"service_gpu_seconds": 0.0}, "service_gpu_seconds is 0.0: write more than 0"),
    ],
)
def test_impossible_parameters_are_refused(fields: dict[str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Pollux(**fields)


def test_the_limits_of_the_parameters_are_allowed() -> None:
    free = Pollux(1.0, restart_seconds=0.0, service_exponent=0.0, service_gpu_seconds=0.5, stop_ratio=0.0)
    assert free.allot([an_elastic(workers_by_node=(4,))], {"n0": 8}, 0.0) == {"default/a": 8}
