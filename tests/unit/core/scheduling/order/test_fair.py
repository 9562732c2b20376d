"""Max-min fairness between namespaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from laneway.scheduling import ClusterSnapshot, JobState, Policies
from laneway.scheduling.order.fair import Fair

from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job, a_node, eager, planned
from tests.unit.core.scheduling.order.ranking import order_by, preempts
from tests.unit.core.scheduling.whole_plan import plan


def several(namespace: str, count: int) -> list[JobBuilder]:
    return [a_job(f"{namespace}/{number}") for number in range(count)]


def started_by_namespace(jobs: Sequence[JobBuilder], by: Policies) -> Counter[str]:
    return Counter(key.partition("/")[0] for key in planned([a_node("n", 6)], *jobs, by=by).starts)


def test_gpus_are_shared_by_weight() -> None:
    jobs = [*several("a", 9), *several("b", 9), *several("c", 9)]
    assert started_by_namespace(jobs, eager("fair")) == {"a": 2, "b": 2, "c": 2}
    by_weight = eager("fair", weights={"a": 3, "b": 2})
    assert started_by_namespace(jobs, by_weight) == {"a": 3, "b": 2, "c": 1}


def test_what_one_does_not_need_others_get() -> None:
    assert started_by_namespace([*several("a", 1), *several("b", 9)], eager("fair")) == {"a": 1, "b": 5}


def test_a_namespace_above_its_share_is_preempted() -> None:
    held = [a_job(f"a/{number}").runs_on(f"n/{number}", since=number) for number in range(6)]
    decided = planned([a_node("n", 6)], *held, *several("b", 9), by=eager("fair"))
    assert set(decided.preemptions) == {"a/3", "a/4", "a/5"}


def test_an_odd_gpu_stays_where_it_is_until_the_other_is_an_interval_behind() -> None:
    fair = Fair(interval_seconds=100)
    last = a_job("a/1").runs_on("n/1")
    others = [a_job("a/0").runs_on("n/0"), a_job("b/0").runs_on("n/2")]
    assert not preempts(fair, a_job("b/1"), last.served(99), *others)
    assert preempts(fair, a_job("b/1"), last.served(100), *others)


def test_gangs_that_need_the_whole_cluster_take_turns() -> None:
    fair = Fair(interval_seconds=100)
    runs = a_job("a/0").needs(8).runs_on(*(f"n/{gpu}" for gpu in range(8)))
    waits = a_job("b/0").needs(8)
    assert not preempts(fair, waits, runs.served(799))
    assert preempts(fair, waits, runs.served(800))
    assert not preempts(fair, waits.served(100), runs.served(899))


def test_a_lead_counts_for_as_much_as_a_share_attains_in_the_memory() -> None:
    fair = Fair(interval_seconds=100, memory_seconds=1000)
    old = [a_job(f"a/{number}").served(1e9).runs_on(f"n/{number}", since=number) for number in range(4)]
    new = [a_job(f"b/{number}") for number in range(60)]
    order = order_by(fair, *old, *new)
    lead_in_jobs = (
        1000 * 4 / 100
    )  # a share of the 8 GPUs is 4: it attains 4,000 in the memory, 40 jobs' intervals
    assert order.index("a/0") == pytest.approx(lead_in_jobs, abs=1)
    assert order.index("a/3") == order.index("a/0") + 6, "from there on they alternate"


def test_without_memory_only_the_gpus_held_count() -> None:
    rich, poor = a_job("a/0").served(1e9).created(1), a_job("b/0").created(2)
    assert order_by(Fair(memory_seconds=0), poor, rich) == ["a/0", "b/0"]
    assert order_by(Fair(), poor, rich) == ["b/0", "a/0"]


def test_jobs_that_cannot_run_or_leave_do_not_count_against_their_namespace() -> None:
    ballast = [
        a_job("a/huge").needs(99).created(0),
        a_job("a/off").needs(4).created(0).suspended(),
        a_job("a/gone").leaves("n/0").created(0),
    ]
    jobs = [*ballast, a_job("a/z").created(1), a_job("b/z").created(2), a_job("b/zz").created(0)]
    order = [key for key in order_by(Fair(), *jobs) if "z" in key]
    assert order == ["b/zz", "a/z", "b/z"]


def test_within_a_namespace_higher_priority_counts_first() -> None:
    runs, urgent = a_job("a/low").runs_on("n/0"), a_job("a/high").priority(5)
    ranks = Fair().ranks([runs.made, urgent.made], 8, NOW)
    assert ranks["a/high"].position < ranks["a/low"].position


def test_turns_come_to_rest_in_every_moment() -> None:
    snapshot = ClusterSnapshot(
        (a_node("n", 7),),
        tuple(job.made for name in "abc" for job in [*several(name, 4), a_job(f"{name}/gang").needs(3)]),
    )
    for _ in range(20):
        decided = plan(snapshot, NOW, eager("fair", weights={"b": 2}))
        if not decided.starts and not decided.preemptions:
            return
        snapshot = replace(
            snapshot,
            jobs=tuple(
                replace(
                    job, state=JobState.RUNNING, placement=decided.starts[job.key], started_seconds=NOW - 100
                )
                if job.key in decided.starts
                else replace(job, state=JobState.WAITING, placement=())
                if job.key in decided.preemptions
                else job
                for job in snapshot.jobs
            ),
        )
    pytest.fail("twenty plans in a row, without time going on, still move jobs")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"weights": {"a": 0.0}}, "weight of namespace a is 0"),
        ({"interval_seconds": 0.0}, "interval_seconds is 0"),
        ({"memory_seconds": -1.0}, "memory_seconds is -1"),
    ],
)
def test_wrong_parameters_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Fair(**options)  # type: ignore[arg-type]
