"""Least attained service in many queues, and how long a job waits at most."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling import JobState
from laneway.scheduling.order.multilevel_las import MultilevelLAS

from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job
from tests.unit.core.scheduling.order.ranking import order_by, preempts

LAS = MultilevelLAS(first_threshold_gpu_seconds=100, queue_ratio=2, runtime_cap_seconds=1000)


@pytest.mark.parametrize(
    ("story", "jobs", "want"),
    [
        ("new jobs go by arrival", [a_job("b").created(2), a_job("a").created(1)], "ab"),
        (
            "less service goes first",
            [a_job("a").served(100).created(1), a_job("b").served(99).created(9)],
            "ba",
        ),
        (
            "queues end at 100, 200, 400, ...",
            [a_job("a").served(400), a_job("b").served(399).created(5)],
            "ba",
        ),
        (
            "within a queue service plays no role",
            [a_job("a").served(399).created(1), a_job("b").served(200).created(2)],
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
            "running time beyond the cap does not count",
            [a_job("a").served(9_000_000.0).created(1), a_job("b").served(1000).created(2)],
            "ab",
        ),
        (
            "of jobs that have run for long, the narrow go first",
            [a_job("wide").needs(4).served(4000, executed=1000), a_job("narrow").served(9000).created(5)],
            ["narrow", "wide"],
        ),
        ("equals go by name, not by the list", [a_job("b"), a_job("a")], "ab"),
    ],
)
def test_order(story: str, jobs: list[JobBuilder], want: str | list[str]) -> None:
    assert order_by(LAS, *jobs) == list(want)


def test_only_jobs_of_a_later_queue_are_preempted() -> None:
    on_gpu = a_job("runs").runs_on("n/0")
    assert preempts(LAS, a_job("new"), on_gpu.served(100))
    assert not preempts(LAS, a_job("new"), on_gpu.served(99))


@pytest.mark.parametrize(
    ("story", "job", "want"),
    [
        (
            "a job that runs, when it reaches the threshold",
            a_job("a").needs(2).served(150).runs_on("n/0", "n/1"),
            NOW + 25,
        ),
        ("one that waits, never", a_job("a").served(300).created(0), math.inf),
        ("one that no more service can move, never", a_job("a").served(800).runs_on("n/0"), math.inf),
    ],
)
def test_a_rank_says_until_when_it_stands(story: str, job: JobBuilder, want: float) -> None:
    assert LAS.ranks([job.made], 8, NOW)["a"].until_seconds == pytest.approx(want)


@given(st.floats(0, 1e7), st.sampled_from([1.5, 2.0, 3.0, 10.0]), st.floats(0.1, 1e4))
def test_queues_rise_with_service_and_end_at_powers_of_the_ratio(
    service: float, ratio: float, first: float
) -> None:
    las = MultilevelLAS(first, ratio, runtime_cap_seconds=1e12)
    queue = las.ranks([a_job("a").served(service).made], 8, NOW)["a"].queue
    assert queue >= 0
    assert service < first * ratio**queue * (1 + 1e-9)
    assert queue == 0 or service + 0.002 >= first * ratio ** (queue - 1) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first_threshold_gpu_seconds": 0}, "first_threshold_gpu_seconds is 0: write a number above 0"),
        ({"queue_ratio": 1.0}, "queue_ratio is 1.0: write a number above 1"),
        ({"runtime_cap_seconds": math.inf}, "runtime_cap_seconds is inf: write a number above 0"),
    ],
)
def test_parameters_that_make_no_queues_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultilevelLAS(**options)
