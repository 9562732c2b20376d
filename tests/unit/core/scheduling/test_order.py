"""Which job goes first, and when that changes by itself."""

from __future__ import annotations

import math

import pytest
from laneway.scheduling import PlacementMode, next_decision_seconds, policies
from laneway.scheduling.order.fifo import Fifo
from laneway.scheduling.order.tiresias_las import TiresiasLAS

from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job, a_node, a_snapshot, eager, planned


def order_of(*jobs: JobBuilder, by: str = "tiresias-las") -> list[str]:
    return list(planned([a_node("n", 8)], *jobs, by=eager(by)).order)


@pytest.mark.parametrize(
    ("story", "jobs", "want"),
    [
        ("new jobs go by arrival", [a_job("b").created(2), a_job("a").created(1)], "ab"),
        (
            "less service goes first, whoever came first",
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
            "a job at the threshold is in the next queue",
            [a_job("a").created(1).served(3250), a_job("b").created(2)],
            "ba",
        ),
        (
            "a higher priority goes first, whatever the service",
            [a_job("a"), a_job("b").served(99_999).priority(5)],
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
def test_tiresias_las(story: str, jobs: list[JobBuilder], want: str) -> None:
    assert "".join(order_of(*jobs)) == want, story


def test_fifo_goes_by_creation_alone() -> None:
    jobs = [a_job("a").created(2), a_job("b").created(1).served(99_999), a_job("c").created(3).runs_on("n/0")]
    assert order_of(*jobs, by="fifo") == ["b", "a", "c"]


def test_a_plan_says_the_queue_of_each_job_and_who_was_promoted() -> None:
    plan = planned(
        [a_node("n", 1)],
        a_job("new"),
        a_job("old").served(5000, executed=4000),
        a_job("oldest").served(8000, executed=8000),
        a_job("patient").served(8000, executed=10).waiting(NOW - 80),
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
    made = job.made
    until = TiresiasLAS().ranks([made], 8, NOW)[made.key].until_seconds
    assert until == (math.inf if want is None else want), story
    assert Fifo().ranks([made], 8, NOW)[made.key].until_seconds == math.inf


def test_the_next_decision_is_due_when_a_queue_changes_or_a_protection_ends() -> None:
    chosen = policies(preemption_options={"min_run_seconds": 60})
    runs = a_job("a").served(3000).runs_on("n/0", since=NOW - 10)
    alone = a_snapshot([a_node("n", 1)], runs)
    assert next_decision_seconds(alone, NOW, chosen) == NOW + 250
    with_another = a_snapshot([a_node("n", 1)], runs, a_job("b"))
    assert next_decision_seconds(with_another, NOW, chosen) == NOW + 250, "it may not preempt one of its own queue"
    lower = a_job("a").served(5000).runs_on("n/0", since=NOW - 10)
    assert next_decision_seconds(a_snapshot([a_node("n", 1)], lower, a_job("b")), NOW, chosen) == NOW + 50
    assert next_decision_seconds(a_snapshot([a_node("n", 1)], a_job("b")), NOW, chosen) is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"order": "las"}, "no order policy 'las'; write one of fifo, tiresias-las"),
        ({"placement": "x"}, "no placement policy 'x'; write one of best-fit"),
        ({"admission": ("quota",)}, "no admission policy 'quota'; there is none yet"),
        (
            {"order_options": {"knob": 1}},
            "no parameter 'knob'; it has thresholds_gpu_seconds, promotion_factor, patience_seconds",
        ),
        ({"order": "fifo", "order_options": {"knob": 1}}, "no parameter 'knob'; it has strict"),
        ({"order": "fifo", "order_options": {"strict": 1}}, "is 1: write true or false"),
        ({"placement_options": {"knob": 1}}, "no parameter 'knob'; it has none"),
        ({"order_options": {"promotion_factor": "8"}}, "promotion_factor .* is '8': write a number"),
        ({"order_options": {"promotion_factor": -1}}, "promotion_factor is -1"),
        ({"order_options": {"patience_seconds": -1}}, "patience_seconds is -1"),
        ({"order_options": {"thresholds_gpu_seconds": 5}}, "is 5: write a list of numbers"),
        ({"order_options": {"thresholds_gpu_seconds": [9, 5]}}, "each larger than the one before"),
        ({"preemption_options": {"min_run_seconds": -1}}, "min_run_seconds is -1"),
    ],
)
def test_wrong_names_and_parameters_are_refused_with_what_to_write(
    options: dict[str, object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        policies(**options)  # type: ignore[arg-type]


def test_parameters_reach_the_policy() -> None:
    made = policies(order_options={"thresholds_gpu_seconds": [10, 20], "promotion_factor": 2})
    assert made.order == TiresiasLAS((10.0, 20.0), 2.0)


def test_modes_are_those_of_the_api() -> None:
    assert [mode.value for mode in PlacementMode] == ["Auto", "Consolidate", "Spread"]
