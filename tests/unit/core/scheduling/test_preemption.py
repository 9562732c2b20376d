"""Which jobs are preempted."""

from __future__ import annotations

import pytest
from laneway.scheduling import Policies, Scheduler, policies

from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job, a_node, planned


def victims(by: str, *jobs: JobBuilder, gpus: int = 8, **options: float) -> set[str]:
    chosen: Policies = policies(
        order="tiresias-las", preemption=by, preemption_options={"min_run_seconds": 0.0, **options}
    )
    return set(planned([a_node("n", gpus)], *jobs, by=chosen).preemptions)


def runs(name: str, first: int, count: int, since: float, served: float = 9000.0) -> JobBuilder:
    return (
        a_job(name)
        .needs(count)
        .served(served)
        .runs_on(*(f"n/{first + i}" for i in range(count)), since=since)
    )


def test_lowest_first_takes_the_last_in_the_order_whatever_it_loses() -> None:
    small, large = runs("small", 0, 1, since=1), runs("large", 1, 7, since=2)
    assert victims("lowest-first", small, large, a_job("new").created(10)) == {"large"}


def test_least_lost_takes_a_small_one_that_is_enough() -> None:
    small, large = runs("small", 0, 1, since=1), runs("large", 1, 7, since=2)
    assert victims("least-lost", small, large, a_job("new").created(10)) == {"small"}


def test_least_lost_takes_one_of_two_that_would_do() -> None:
    pair, rest = runs("pair", 0, 2, since=2), runs("rest", 2, 6, since=1)
    assert victims("least-lost", pair, rest, a_job("new").needs(2).created(10)) == {"pair"}


def test_a_higher_queue_is_left_alone_while_a_lower_one_suffices() -> None:
    middle, low = runs("middle", 0, 1, since=1, served=4000.0), runs("low", 1, 7, since=2)
    assert victims("least-lost", middle, low, a_job("new").created(10)) == {"low"}


@pytest.mark.parametrize("by", ["lowest-first", "least-lost"])
def test_several_are_preempted_where_none_alone_is_enough(by: str) -> None:
    jobs = [runs(f"j{n}", n, 1, since=float(n)) for n in range(8)]
    assert victims(by, *jobs, a_job("new").needs(3).created(10)) == {"j5", "j6", "j7"}


@pytest.mark.parametrize("by", ["lowest-first", "least-lost"])
def test_nobody_goes_in_vain(by: str) -> None:
    kept = runs("kept", 0, 8, since=1).never_preempted()
    assert victims(by, kept, a_job("new").created(10)) == set()


@pytest.mark.parametrize("by", ["lowest-first", "least-lost"])
def test_who_has_just_started_is_left_in_peace(by: str) -> None:
    just = runs("just", 0, 8, since=NOW - 30)
    assert victims(by, just, a_job("new").created(10), min_run_seconds=60.0) == set()
    assert victims(by, just, a_job("new").created(10), min_run_seconds=30.0) == {"just"}


@pytest.mark.parametrize("order", ["fifo", "fair", "multilevel-las", "tiresias-las"])
def test_who_found_as_many_preempting_as_may_is_tried_again(order: str) -> None:
    made = Scheduler([a_node("n", 1)], policies(order=order, preemption_options={"min_run_seconds": 0.0}))
    made.observe(a_job("low").served(9000.0).runs_on("n/0", since=1).made)
    made.observe(a_job("high").priority(10).created(10).made)
    assert not made.decide(NOW, max_preemptors=0).preemptions
    assert set(made.decide(NOW).preemptions) == {"low"}, "nothing but the bound has changed"


def test_refuses_negative_times() -> None:
    with pytest.raises(ValueError, match="eviction_seconds is -1"):
        policies(preemption="least-lost", preemption_options={"eviction_seconds": -1.0})
