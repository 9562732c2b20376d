"""Discretised 2D-LAS: queues by service, arrival within a queue, promotion."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from laneway.scheduling import Job, JobState
from laneway.scheduling.order.tiresias_las import TiresiasLAS

from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job, a_node, eager, planned
from tests.unit.core.scheduling.order.ranking import order_by

PROMOTING = TiresiasLAS(promotion_factor=8)


@pytest.mark.parametrize(
    ("story", "jobs", "want"),
    [
        ("new jobs go by arrival", [a_job("b").created(2), a_job("a").created(1)], "ab"),
        (
            "less service goes first, in any order of arrival",
            [a_job("a").served(3300).created(1), a_job("b").served(100).created(9)],
            "ba",
        ),
        (
            "within a queue service plays no role",
            [a_job("a").served(3000).created(1), a_job("b").served(10).created(2)],
            "ab",
        ),
        (
            "within a queue those that run go first, by start",
            [
                a_job("a").created(1),
                a_job("b").created(3).runs_on("n/0", since=8),
                a_job("c").created(2).runs_on("n/1", since=9),
            ],
            "bca",
        ),
        (
            "a paused job is one of those that wait",
            [
                a_job("a").created(1),
                a_job("b").created(2).runs_on("n/0", since=8, state=JobState.PAUSED),
                a_job("c").created(3).runs_on("n/1", since=9),
            ],
            "cab",
        ),
        (
            "a job at the threshold is in the next queue",
            [a_job("a").created(1).served(3250), a_job("b").created(2)],
            "ba",
        ),
        ("equals go by name, not by the list", [a_job("b"), a_job("a")], "ab"),
        (
            "a job that waited 8 times what it ran is back in the first queue",
            [a_job("a").created(5), a_job("b").created(1).served(9000, executed=100).waiting(NOW - 800)],
            "ba",
        ),
        (
            "not a moment sooner",
            [a_job("a").created(5), a_job("b").created(1).served(9000, executed=100).waiting(NOW - 799)],
            "ab",
        ),
        (
            "and once it runs, its service counts from there on",
            [
                a_job("a").created(5),
                a_job("b").created(1).served(9100, executed=101).promoted_at(9000).runs_on("n/0", since=999),
            ],
            "ba",
        ),
    ],
)
def test_who_goes_first(story: str, jobs: list[JobBuilder], want: str) -> None:
    assert "".join(order_by(PROMOTING, *jobs)) == want, story


def test_without_a_promotion_factor_nobody_is_promoted_as_in_the_reference() -> None:
    patient = a_job("b").created(1).served(9000, executed=1).waiting(0)
    assert order_by(TiresiasLAS(), a_job("a").created(5), patient) == ["a", "b"]
    assert TiresiasLAS().ranks([patient.made], 8, NOW)["b"].until_seconds == math.inf


def test_a_plan_says_the_queue_of_each_job_and_who_was_promoted() -> None:
    plan = planned(
        [a_node("n", 1)],
        a_job("new"),
        a_job("old").served(5000, executed=4000),
        a_job("oldest").served(8000, executed=8000),
        a_job("patient").served(8000, executed=10).waiting(NOW - 80),
        by=eager(promotion_factor=8),
    )
    assert plan.queues == {"new": 0, "old": 1, "oldest": 2, "patient": 0}
    assert plan.promotions == ("patient",)


@pytest.mark.parametrize(
    ("story", "job", "want"),
    [
        ("a waiting job in the first queue stays there", a_job("a"), None),
        (
            "two GPUs reach the threshold in half the time",
            a_job("a").needs(2).served(3000).runs_on("n/0", "n/1"),
            NOW + 125,
        ),
        ("half a GPU in twice the time", a_job("a").share(50).served(3000).runs_on("n/0"), NOW + 500),
        ("after the last threshold nothing changes", a_job("a").served(9000).runs_on("n/0"), None),
        (
            "a waiting job in a lower queue is promoted in time",
            a_job("a").served(4000, executed=100).waiting(NOW - 300),
            NOW + 500,
        ),
        ("and then stays", a_job("a").served(4000, executed=100).waiting(NOW - 800), None),
    ],
)
def test_when_a_rank_changes_by_itself(story: str, job: JobBuilder, want: float | None) -> None:
    until = PROMOTING.ranks([job.made], 8, NOW)["a"].until_seconds
    assert until == (math.inf if want is None else want), story


def test_the_moment_of_a_demotion_is_the_same_whenever_it_is_asked_for() -> None:
    job = replace(a_job("a").needs(3).served(0.1).runs_on("n/0", "n/1", "n/2").made, as_of_seconds=0.3)
    moments = {PROMOTING.ranks([job], 8, now)["a"].until_seconds for now in (0.3, 17.77, 400.1, 1083.0)}
    assert len(moments) == 1


def test_a_demotion_has_come_at_its_moment_on_a_clock_of_this_century() -> None:
    since = 1.79e9 + 0.1
    job = replace(
        a_job("a").needs(8, gpus_per_worker=8).runs_on(*(f"n/{gpu}" for gpu in range(64))).made,
        as_of_seconds=since,
        attained_service_gpu_seconds=1.7,
    )
    moment = PROMOTING.ranks([job], 64, since)["a"].until_seconds
    assert PROMOTING.ranks([job], 64, moment)["a"].queue == 1


def test_a_patient_job_holds_up_others_once_its_patience_is_at_an_end() -> None:
    policy = TiresiasLAS(patience_seconds=100)

    def blocks_later_jobs(job: Job) -> bool:
        return policy.blocks_later_jobs(job, policy.ranks([job], 8, NOW)[job.key], NOW)

    assert blocks_later_jobs(a_job("a").waiting(NOW - 100).made)
    assert not blocks_later_jobs(a_job("a").waiting(NOW - 99).made)
    assert not blocks_later_jobs(a_job("a").served(4000).waiting(NOW - 500).made), "only in the first queue"
    assert not TiresiasLAS().blocks_later_jobs(
        a_job("a").made, TiresiasLAS().ranks([a_job("a").made], 8, NOW)["a"], NOW
    )
