"""Least attained service in many queues, and how long a job waits at most."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling import JobState
from laneway.scheduling.order.multilevel_las import MultilevelLAS
from laneway.simulator import Costs, Simulation, make_nodes

from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job, a_node, eager, planned
from tests.unit.core.scheduling.order.ranking import order_by, preempts
from tests.unit.simulator.builders import a_job as a_trace_job

LAS = MultilevelLAS(
    first_threshold_gpu_seconds=100, queue_ratio=2, runtime_cap_seconds=1000, promotion_seconds=10_000
)


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
        (
            "who has waited long in all is lifted by a queue",
            [a_job("new").created(NOW).served(100), a_job("old").served(200).created(NOW - 10_200)],
            ["old", "new"],
        ),
        (
            "time in which it ran is no waiting",
            [a_job("new").created(NOW).served(100), a_job("old").served(201).created(NOW - 10_200)],
            ["new", "old"],
        ),
        (
            "but not past those that are young, unless it has waited far longer",
            [
                a_job("new").created(NOW),
                a_job("old").served(400, executed=400).created(NOW - 30_399),
                a_job("older").served(400, executed=400).created(NOW - 70_400),
            ],
            ["older", "new", "old"],
        ),
    ],
)
def test_order(story: str, jobs: list[JobBuilder], want: str | list[str]) -> None:
    assert order_by(LAS, *jobs) == list(want)


def test_only_jobs_of_a_later_queue_are_preempted() -> None:
    on_gpu = a_job("runs").runs_on("n/0")
    assert preempts(LAS, a_job("new"), on_gpu.served(100))
    assert not preempts(LAS, a_job("new"), on_gpu.served(99))
    assert preempts(LAS, a_job("old").served(800).created(-1e7), on_gpu)
    assert not preempts(LAS, a_job("new"), on_gpu.served(5000).created(-1e7))


@pytest.mark.parametrize(
    ("story", "job", "want"),
    [
        (
            "a job that runs, when it reaches the threshold",
            a_job("a").needs(2).served(150).runs_on("n/0", "n/1"),
            NOW + 25,
        ),
        ("one that waits, when it is lifted", a_job("a").served(300).created(0), 10_300),
        ("one that has been lifted, when it is again", a_job("a").served(300).created(-20_000), 10_300),
        ("one that has been lifted to the front, never", a_job("a").created(-20_000), math.inf),
        ("one that no more service can move, never", a_job("a").served(800).runs_on("n/0"), math.inf),
    ],
)
def test_a_rank_says_until_when_it_stands(story: str, job: JobBuilder, want: float) -> None:
    assert LAS.ranks([job.made], 8, NOW)["a"].until_seconds == pytest.approx(want)


def test_without_promotion_nobody_is_lifted() -> None:
    never = replace(LAS, promotion_seconds=0)
    assert order_by(never, a_job("old").served(100).created(-1e9), a_job("new")) == ["new", "old"]


def test_nobody_passes_a_gang_at_the_front() -> None:
    """Two newcomers run and leave the gang no room; a third would fit, and keep it from ever getting together."""
    gang = a_job("gang").needs(3).served(3000, executed=1000).created(-1e6)
    newcomers = [a_job(f"old{at}").runs_on(f"n/{at}", since=NOW).never_preempted() for at in range(2)]
    plan = planned([a_node("n", 4)], gang, *newcomers, a_job("new"), by=replace(eager(), order=LAS))
    assert not plan.starts
    assert plan.order[0] == "gang"
    passing = replace(LAS, promotion_seconds=0)
    plan = planned([a_node("n", 4)], gang, *newcomers, a_job("new"), by=replace(eager(), order=passing))
    assert list(plan.starts) == ["new"]


@given(st.floats(0, 1e7), st.sampled_from([1.5, 2.0, 3.0, 10.0]), st.floats(0.1, 1e4))
def test_queues_rise_with_service_and_end_at_powers_of_the_ratio(
    service: float, ratio: float, first: float
) -> None:
    las = MultilevelLAS(first, ratio, runtime_cap_seconds=1e12)
    queue = las.ranks([a_job("a").served(service).made], 8, NOW)["a"].queue
    assert queue >= 0
    assert service < first * ratio**queue * (1 + 1e-9)
    assert queue == 0 or service + 0.002 >= first * ratio ** (queue - 1) * (1 - 1e-9)


def finish_seconds(promotion_seconds: float) -> float:
    """When a gang is done that has run past the cap, in a stream of newcomers that would keep both GPUs busy."""
    las = replace(LAS, runtime_cap_seconds=100, promotion_seconds=promotion_seconds)
    gang = a_trace_job("ns/gang", 1000, gpus=2)
    stream = [a_trace_job(f"ns/new{at:03}", 99, submit=200 + 45 * at) for at in range(300)]
    simulation = Simulation(
        [gang, *stream],
        make_nodes("1x2"),
        replace(eager(), order=las),
        Costs(leave_seconds=0, restart_seconds=0),
    )
    simulation.run()
    finish = simulation.runs["ns/gang"].finish_seconds
    assert finish is not None
    return finish


def test_waiting_is_bounded_by_the_promotion() -> None:
    assert finish_seconds(0) > 200 + 45 * 300, "while newcomers come, it waits"
    longest_newcomer = 99
    wait_to_the_front = 300 * (2**3 - 1)  # it is in the third queue
    assert finish_seconds(300) <= 1000 + wait_to_the_front + longest_newcomer


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first_threshold_gpu_seconds": 0}, "first_threshold_gpu_seconds is 0: write a number above 0"),
        ({"queue_ratio": 1.0}, "queue_ratio is 1.0: write a number above 1"),
        ({"runtime_cap_seconds": math.inf}, "runtime_cap_seconds is inf: write a number above 0"),
        ({"promotion_seconds": -1}, "promotion_seconds is -1: write 0 for never, or a time"),
    ],
)
def test_parameters_that_make_no_queues_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultilevelLAS(**options)
