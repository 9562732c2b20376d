"""Elastic jobs on idle GPUs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import scipy.optimize
from hypothesis import given, settings
from laneway.scheduling.elastic import bftrainer
from laneway.scheduling.elastic.bftrainer import MANY_COLUMNS, BFTrainer
from laneway.scheduling.elastic.policy import ElasticJob

from tests.support.property_examples import examples
from tests.unit.core.scheduling.elastic.builders import TRAINED, an_elastic, clusters


def outcome(policy: BFTrainer, jobs: list[ElasticJob], allotted: dict[str, int], gpus_per_node: int) -> float:
    """The paper's objective, in workers' worth of seconds."""
    total = 0.0
    for job in jobs:
        workers = allotted[job.key]
        speeds = job.speeds(max(workers, job.workers), gpus_per_node)
        lost = 0.0
        if workers > job.workers:
            lost = policy.scale_up_seconds
        elif workers < job.workers:
            lost = policy.scale_down_seconds
        one = job.speed_on(job.min_workers, gpus_per_node) / job.min_workers or 1.0
        total += (speeds[workers] * policy.horizon_seconds - speeds[job.workers] * lost) / one
    return total


@settings(max_examples=examples(40))
@given(clusters())
def test_no_other_allotment_has_a_larger_outcome(cluster: tuple[list[ElasticJob], dict[str, int]]) -> None:
    jobs, free = [job for job in cluster[0] if job.preemptible][:3], cluster[1]
    policy = BFTrainer()
    capacity, gpus_per_node = sum(free.values()), max(free.values())
    best = max(
        outcome(policy, jobs, dict(zip([job.key for job in jobs], counts, strict=True)), gpus_per_node)
        for counts in product(*(job.counts(capacity) for job in jobs))
        if sum(count * job.gpus_per_worker for count, job in zip(counts, jobs, strict=True)) <= capacity
    )
    allotted = dict(policy.allot(jobs, free, 0.0))
    assert outcome(policy, jobs, allotted, gpus_per_node) == pytest.approx(best, rel=1e-4, abs=1e-6)


def test_idle_gpus_are_filled() -> None:
    jobs = [an_elastic(f"default/{number}") for number in range(3)]
    assert sum(BFTrainer().allot(jobs, {"n0": 8, "n1": 8}, 0.0).values()) == 16


@pytest.mark.parametrize(
    ("horizon_seconds", "workers"), [(35.0, 4), (3600.0, 8)], ids=["soon over", "for an hour"]
)
def test_a_job_is_rescaled_only_if_the_time_ahead_pays_for_it(horizon_seconds: float, workers: int) -> None:
    job = an_elastic(workers_by_node=(4,))
    policy = BFTrainer(horizon_seconds=horizon_seconds)
    assert policy.allot([job], {"n0": 8}, 0.0) == {"default/a": workers}


@pytest.mark.parametrize(
    ("scale_down_seconds", "allotted"),
    [(0.0, {"default/old": 7, "default/new": 1}), (600.0, {"default/old": 8, "default/new": 0})],
)
def test_a_job_shrinks_for_a_new_one_only_if_that_pays(
    scale_down_seconds: float, allotted: dict[str, int]
) -> None:
    jobs = [
        an_elastic("default/old", workers_by_node=(8,)),
        an_elastic("default/new", created_seconds=1.0, goodput=None),
    ]
    assert BFTrainer(scale_down_seconds=scale_down_seconds).allot(jobs, {"n0": 8}, 0.0) == allotted


def test_a_job_whose_workers_stay_loses_no_time() -> None:
    job = an_elastic(max_workers=4, workers_by_node=(4,), goodput=None)
    policy = BFTrainer(horizon_seconds=1.5, scale_up_seconds=0.0, scale_down_seconds=0.0)
    assert policy.allot([job], {"n0": 8}, 0.0) == {"default/a": 4}


@pytest.mark.parametrize("held", [0, 14], ids=["it waits", "it runs so"])
@pytest.mark.parametrize("columns", [17, 1], ids=["all numbers", "few numbers"])
def test_among_few_numbers_are_the_current_one_and_small_ones(
    monkeypatch: pytest.MonkeyPatch, held: int, columns: int
) -> None:
    """A job is fastest with the 14 workers of the large node; there are 17 numbers of workers to choose from."""
    monkeypatch.setattr(bftrainer, "MANY_COLUMNS", columns)
    slow = replace(TRAINED, throughput=replace(TRAINED.throughput, internode_seconds=5.0))
    job = an_elastic(goodput=slow, workers_by_node=(held,) if held else ())
    allotted = BFTrainer().allot([job], {"n0": 14, "n1": 2}, 0.0)["default/a"]
    assert allotted == 14 if held or columns == 17 else 8 <= allotted < 14


def test_among_few_numbers_are_none_and_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bftrainer, "MANY_COLUMNS", 1)
    larger = an_elastic("default/a", min_workers=33, workers_by_node=(40,), goodput=None)
    smaller = an_elastic("default/b", min_workers=33, workers_by_node=(34,))
    assert BFTrainer().allot([larger, smaller], {"n0": 64}, 0.0) == {"default/a": 64, "default/b": 0}


def test_the_solver_gets_its_limit(solver_options: list[dict[str, float]]) -> None:
    assert BFTrainer(node_limit=7).allot([an_elastic()], {"n0": 8}, 0.0) == {"default/a": 8}
    assert solver_options == [{"node_limit": 7}]


def test_without_a_solution_no_gpu_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scipy.optimize.milp", lambda *_, **__: scipy.optimize.OptimizeResult(x=None))
    jobs = [an_elastic(f"default/{number}") for number in range(3)]
    assert sum(BFTrainer().allot(jobs, {"n0": 2}, 0.0).values()) <= 2


def test_the_limits_of_the_parameters_are_allowed() -> None:
    free = BFTrainer(horizon_seconds=0.5, scale_up_seconds=0.0, scale_down_seconds=0.0, node_limit=1)
    assert free.allot([an_elastic(workers_by_node=(4,))], {"n0": 8}, 0.0) == {"default/a": 8}


def test_many_jobs_choose_among_fewer_numbers_and_still_fill_the_cluster() -> None:
    jobs = [
        an_elastic(f"default/{number:03}", workers_by_node=(7, 8, 8) if number == 0 else ())
        for number in range(150)
    ]
    free = {f"n{number}": 8 for number in range(125)}
    allotted = BFTrainer().allot(jobs, free, 0.0)
    assert len(jobs) * 65 > 2 * MANY_COLUMNS
    assert sum(allotted.values()) == 1000
    assert max(allotted.values()) - min(allotted.values()) <= 16


def test_a_job_below_its_fewest_workers_waits() -> None:
    assert BFTrainer().allot([an_elastic(min_workers=6, goodput=None)], {"n0": 5}, 0.0) == {"default/a": 0}


def test_gpus_that_are_gone_are_given_up() -> None:
    job = an_elastic(workers_by_node=(8,))
    assert BFTrainer().allot([job], {"n0": 5}, 0.0) == {"default/a": 5}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"horizon_seconds": 0.0}, "horizon_seconds is 0.0: write more than 0"),
        ({"scale_up_seconds": -1.0}, "scale_up_seconds is -1.0"),
        ({"scale_down_seconds": -1.0}, "scale_down_seconds is -1.0"),
        ({"node_limit": 0}, "node_limit is 0: write 1 or more"),
    ],
)
def test_impossible_parameters_are_refused(fields: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        BFTrainer(**fields)
