"""Properties of every elastic policy."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling.elastic.bftrainer import BFTrainer
from laneway.scheduling.elastic.policy import ElasticJob, ElasticPolicy
from laneway.scheduling.elastic.pollux import Pollux

from tests.support.property_examples import examples
from tests.unit.core.scheduling.elastic.builders import TRAINED, an_elastic, clusters, shuffled

POLICIES: list[ElasticPolicy] = [Pollux(), Pollux(fairness=-1.0), Pollux(fairness=1.0), BFTrainer()]
every_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: str(policy)[:28])
quick = settings(max_examples=examples(25))


@every_policy
@quick
@given(cluster=clusters())
def test_every_job_gets_a_number_of_workers_that_it_can_run_with(
    policy: ElasticPolicy, cluster: tuple[list[ElasticJob], dict[str, int]]
) -> None:
    jobs, free = cluster
    allotted = policy.allot(jobs, free, 1000.0)
    assert set(allotted) == {job.key for job in jobs}
    for job in jobs:
        workers = allotted[job.key]
        assert workers == 0 or job.min_workers <= workers <= job.max_workers


@every_policy
@quick
@given(cluster=clusters())
def test_no_more_gpus_are_given_than_are_free(
    policy: ElasticPolicy, cluster: tuple[list[ElasticJob], dict[str, int]]
) -> None:
    jobs, free = cluster
    allotted = policy.allot(jobs, free, 1000.0)
    assert sum(allotted[job.key] * job.gpus_per_worker for job in jobs) <= sum(free.values())


@every_policy
@quick
@given(cluster=clusters(), seed=st.integers(0, 100))
def test_the_order_of_the_lists_changes_nothing(
    policy: ElasticPolicy, cluster: tuple[list[ElasticJob], dict[str, int]], seed: int
) -> None:
    jobs, free = cluster
    turned = dict(reversed(free.items()))
    assert policy.allot(shuffled(jobs, seed), turned, 1000.0) == policy.allot(jobs, free, 1000.0)


@every_policy
@quick
@given(cluster=clusters())
def test_jobs_that_may_not_be_preempted_keep_their_workers(
    policy: ElasticPolicy, cluster: tuple[list[ElasticJob], dict[str, int]]
) -> None:
    jobs, free = cluster
    allotted = policy.allot(jobs, free, 1000.0)
    for job in jobs:
        if job.workers and not job.preemptible:
            assert allotted[job.key] == job.workers


@every_policy
def test_a_job_alone_starts_with_its_fewest_workers_and_then_doubles(policy: ElasticPolicy) -> None:
    fresh = an_elastic(goodput=None)
    assert policy.allot([fresh], {"n0": 8}, 0.0) == {"default/a": 1}
    held = an_elastic(workers_by_node=(2,), goodput=replace(TRAINED, explored_replicas=2))
    assert policy.allot([held], {"n0": 8}, 100_000.0) == {"default/a": 4}


@every_policy
def test_a_job_that_does_not_scale_leaves_gpus_to_one_that_does(policy: ElasticPolicy) -> None:
    chatty = replace(TRAINED, throughput=replace(TRAINED.throughput, intranode_seconds_per_replica=1.0))
    jobs = [an_elastic("default/a"), an_elastic("default/b", goodput=chatty)]
    allotted = policy.allot(jobs, {"n0": 16}, 0.0)
    assert 1 <= allotted["default/b"] <= 2
    assert allotted["default/a"] >= 14


@every_policy
def test_what_was_decided_stays_when_nothing_has_changed(policy: ElasticPolicy) -> None:
    jobs = [an_elastic(f"default/{name}", created_seconds=float(number)) for number, name in enumerate("abc")]
    free = {"n0": 8, "n1": 8}
    first = policy.allot(jobs, free, 1000.0)
    running = [
        replace(job, workers_by_node=(first[job.key],) if first[job.key] <= 8 else (8, first[job.key] - 8))
        for job in jobs
    ]
    assert policy.allot(running, free, 1001.0) == first


@every_policy
def test_without_gpus_all_wait(policy: ElasticPolicy) -> None:
    assert policy.allot([an_elastic()], {}, 0.0) == {"default/a": 0}
    assert policy.allot([], {"n0": 8}, 0.0) == {}


def test_neither_numpy_nor_scipy_is_loaded_before_a_policy_is_asked() -> None:
    code = (
        "import sys; import laneway.scheduling; import laneway.scheduling.elastic.pollux;"
        "import laneway.scheduling.elastic.bftrainer, laneway.scheduling.elastic.fit;"
        "sys.exit(sorted({'numpy', 'scipy'} & set(sys.modules)) != [])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"min_workers": 0}, "runs with 0 to 64 workers"),
        ({"min_workers": 65}, "runs with 65 to 64 workers"),
        ({"gpus_per_worker": 0}, "gpus_per_worker of job default/a is 0"),
    ],
)
def test_impossible_jobs_are_refused(fields: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        an_elastic(**fields)
