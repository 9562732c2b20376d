"""Properties of every order policy, for any jobs."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import Demand, Job, JobState, WorkerPlacement
from laneway.scheduling.config.registry import ORDER
from laneway.scheduling.order.policy import OrderPolicy, Rank
from laneway.scheduling.order.tiresias_gittins import TiresiasGittins
from laneway.scheduling.order.tiresias_las import TiresiasLAS

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import NOW
from tests.unit.core.scheduling.order.ranking import CLUSTER_GPUS, sort_key

POLICIES: dict[str, OrderPolicy] = {name: ORDER[name]() for name in ORDER} | {
    "tiresias-las with promotion": TiresiasLAS(promotion_factor=8),
    "tiresias-gittins with promotion": TiresiasGittins(promotion_factor=2),
}
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
quick = settings(max_examples=examples(15))

PLACED = (JobState.STARTING, JobState.RUNNING, JobState.TERMINATING, JobState.PAUSED)


@st.composite
def jobs(draw: st.DrawFn, key: str) -> Job:
    demand = Demand(draw(st.sampled_from([1, 1, 2, 4])), share_percent=draw(st.sampled_from([30, 100])))
    state = draw(st.sampled_from([JobState.WAITING, JobState.WAITING, JobState.RUNNING, *PLACED]))
    executed = draw(st.sampled_from([0.0, 7.0, 100.0, 4000.0]))
    placement = tuple(
        WorkerPlacement(rank, "n", (f"n/{rank}",), demand.share_percent) for rank in range(demand.workers)
    )
    return Job(
        key,
        demand,
        created_seconds=float(draw(st.integers(0, 500))),
        state=state,
        placement=placement if state in PLACED else (),
        attained_service_gpu_seconds=executed * demand.gpus,
        executed_seconds=executed,
        as_of_seconds=draw(st.sampled_from([NOW, NOW - 0.3, NOW - 30]))
        if state is JobState.RUNNING
        else None,
        expected_seconds=draw(st.sampled_from([None, 50.0, 5000.0])),
        waiting_since_seconds=float(draw(st.integers(500, 1000))),
        started_seconds=NOW - draw(st.sampled_from([0.0, 30.0, 5000.0])) if state in PLACED else None,
        suspended=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def crowds(draw: st.DrawFn) -> list[Job]:
    namespaces = st.sampled_from(["a", "b"])
    return [draw(jobs(f"{draw(namespaces)}/{number}")) for number in range(draw(st.integers(1, 7)))]


def order_of(crowd: list[Job], ranks: dict[str, Rank]) -> list[Job]:
    return sorted(crowd, key=lambda job: sort_key(job, ranks[job.key]))


@every_policy
@quick
@given(crowd=crowds(), shuffled=st.randoms(use_true_random=False))
def test_ranks_are_determined_by_the_jobs_and_not_by_their_list(
    policy: OrderPolicy, crowd: list[Job], shuffled: random.Random
) -> None:
    ranks = policy.ranks(crowd, CLUSTER_GPUS, NOW)
    assert policy.ranks(shuffled.sample(crowd, len(crowd)), CLUSTER_GPUS, NOW) == ranks
    assert ranks.keys() == {job.key for job in crowd}
    assert len({len(rank.position) for rank in ranks.values()}) == 1
    assert not any(math.isnan(number) for rank in ranks.values() for number in rank.position)


@every_policy
@quick
@given(crowd=crowds())
def test_a_rank_that_is_not_relative_is_the_same_without_the_others(
    policy: OrderPolicy, crowd: list[Job]
) -> None:
    if not policy.relative:
        ranks = policy.ranks(crowd, CLUSTER_GPUS, NOW)
        assert all(policy.ranks([job], CLUSTER_GPUS, NOW) == {job.key: ranks[job.key]} for job in crowd)


@every_policy
@quick
@given(crowd=crowds(), later=st.floats(0, 1))
def test_a_rank_stands_until_it_says_and_no_longer(
    policy: OrderPolicy, crowd: list[Job], later: float
) -> None:
    def place(job: Job, now: float) -> tuple[object, ...]:
        rank = policy.ranks(crowd, CLUSTER_GPUS, now)[job.key]
        return (rank.queue, rank.promoted, *(() if rank.drifts or policy.relative else rank.position))

    for job in crowd:
        rank = policy.ranks(crowd, CLUSTER_GPUS, NOW)[job.key]
        assert rank.until_seconds > NOW
        end = min(rank.until_seconds, NOW + 1e6)
        before = NOW + later * (end - NOW) * 0.999
        if before - NOW < 0.99 * (end - NOW) or end - before > 0.01:
            assert place(job, before) == place(job, NOW)
        if math.isfinite(rank.until_seconds):
            then = policy.ranks(crowd, CLUSTER_GPUS, rank.until_seconds)[job.key]
            assert then.until_seconds > rank.until_seconds
            assert rank.drifts or place(job, rank.until_seconds) != place(job, NOW)


@every_policy
@quick
@given(crowd=crowds(), later=st.floats(0, 1))
def test_a_rank_drifts_at_the_pace_that_it_says(policy: OrderPolicy, crowd: list[Job], later: float) -> None:
    ranks = policy.ranks(crowd, CLUSTER_GPUS, NOW)
    for job in crowd:
        rank = ranks[job.key]
        if rank.pace is None:
            continue
        assert rank.drifts
        assert rank.pace.until_seconds > NOW
        elapsed = later * (min(rank.pace.until_seconds, rank.until_seconds, NOW + 1e5) - NOW)
        then = policy.ranks([job], CLUSTER_GPUS, NOW + elapsed)[job.key]
        moved = rank.position[0] + rank.pace.per_second * elapsed
        assert (then.queue, then.position) == (
            rank.queue,
            (pytest.approx(moved, abs=1e-6), *rank.position[1:]),
        )


@every_policy
@quick
@given(crowd=crowds())
def test_who_may_preempt_comes_first_and_may_preempt_all_that_come_later_too(
    policy: OrderPolicy, crowd: list[Job]
) -> None:
    ranks = dict(policy.ranks(crowd, CLUSTER_GPUS, NOW))
    order = order_of(crowd, ranks)
    running = [job for job in order if job.state is JobState.RUNNING]
    for waiting in (job for job in order if job.state is JobState.WAITING):
        may = [policy.may_preempt(ranks[waiting.key], ranks[job.key]) for job in running]
        assert not any(
            yes and order.index(job) < order.index(waiting) for yes, job in zip(may, running, strict=True)
        )
        assert all(not first or second for first, second in pairwise(may)), (
            "the planner stops at the first no"
        )
        if policy.preempts_by_queue:
            assert may == [ranks[waiting.key].queue < ranks[job.key].queue for job in running]


@every_policy
@quick
@given(crowd=crowds())
def test_nobody_takes_back_what_it_has_just_given(policy: OrderPolicy, crowd: list[Job]) -> None:
    """Two jobs alone: the victim, once it waits, may not preempt its preemptor at the same moment."""
    ranks = policy.ranks(crowd, CLUSTER_GPUS, NOW)
    for waiting in (job for job in crowd if job.state is JobState.WAITING):
        for running in (job for job in crowd if job.state is JobState.RUNNING):
            if policy.may_preempt(ranks[waiting.key], ranks[running.key]):
                now_waits = replace(
                    running,
                    state=JobState.WAITING,
                    placement=(),
                    waiting_since_seconds=NOW,
                    attained_service_gpu_seconds=running.service_gpu_seconds(NOW),
                    executed_seconds=running.ran_seconds(NOW),
                )
                runs = replace(
                    waiting,
                    state=JobState.RUNNING,
                    placement=running.placement,
                    started_seconds=NOW,
                    as_of_seconds=NOW,
                    service_at_promotion_gpu_seconds=waiting.attained_service_gpu_seconds
                    if ranks[waiting.key].promoted
                    else 0.0,
                )
                others = [job for job in crowd if job not in (waiting, running)]
                swapped = policy.ranks([*others, now_waits, runs], CLUSTER_GPUS, NOW)
                assert not policy.may_preempt(swapped[running.key], swapped[waiting.key])


@pytest.mark.parametrize("policy", [TiresiasLAS(promotion_factor=8), TiresiasGittins(promotion_factor=8)])
@quick
@given(executed=st.floats(1, 5000), service=st.floats(3250, 1e6), waited=st.floats(0, 50_000))
def test_promotion_bounds_the_time_that_a_job_is_kept_out_of_the_first_queue(
    policy: OrderPolicy, executed: float, service: float, waited: float
) -> None:
    job = Job(
        "a/j",
        Demand(),
        created_seconds=-1e6,
        attained_service_gpu_seconds=service,
        executed_seconds=executed,
        waiting_since_seconds=NOW - waited,
    )
    rank = policy.ranks([job], CLUSTER_GPUS, NOW)[job.key]
    bound = NOW - waited + 8 * executed
    if rank.queue:
        assert rank.until_seconds == pytest.approx(bound)
        then = policy.ranks([job], CLUSTER_GPUS, rank.until_seconds)[job.key]
        assert (then.queue, then.promoted) == (0, True)
    else:
        assert rank.promoted
        assert bound <= NOW + 0.001
