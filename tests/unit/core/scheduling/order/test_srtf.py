"""Shortest remaining time and shortest remaining service first."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from laneway.scheduling import Job
from laneway.scheduling.order.srsf import SRSF
from laneway.scheduling.order.srtf import SRTF

from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job
from tests.unit.core.scheduling.order.ranking import knows, order_by, preempts


def long_pair() -> list[JobBuilder]:
    """One GPU for 90 s, and four GPUs for 60 s."""
    return [knows(a_job("narrow"), 90), knows(a_job("wide").needs(4), 60)]


@pytest.mark.parametrize(
    ("story", "jobs", "want"),
    [
        ("less to run goes first", [knows(a_job("a"), 60), knows(a_job("b"), 50)], "ba"),
        (
            "what a job has run counts for it",
            [knows(a_job("a").served(40), 60), knows(a_job("b"), 50)],
            "ab",
        ),
        (
            "a job that runs has no bonus",
            [knows(a_job("a").served(0).runs_on("n/0"), 60), knows(a_job("b"), 50)],
            "ba",
        ),
        (
            "unknown ones come after all that are known, by service",
            [a_job("a").served(9), a_job("b").served(5), knows(a_job("c"), 1e9)],
            "cba",
        ),
        (
            "a job that has outrun its estimate comes later the longer it goes on",
            [knows(a_job("a").served(100), 60), knows(a_job("b").served(70), 60), knows(a_job("c"), 30)],
            "bca",
        ),
    ],
)
def test_who_goes_first(story: str, jobs: list[JobBuilder], want: str) -> None:
    assert "".join(order_by(SRTF(), *jobs)) == want, story


def test_service_counts_gpus_too() -> None:
    assert order_by(SRTF(), *long_pair()) == ["wide", "narrow"]
    assert order_by(SRSF(), *long_pair()) == ["narrow", "wide"]


@pytest.mark.parametrize(
    ("story", "job", "gpus"),
    [
        ("a part of a GPU", a_job("a").share(25), 0.25),
        ("a gang of parts", a_job("a").needs(2, share_percent=25), 0.5),
        ("alone on its GPU it takes all of it", a_job("a").needs(share_percent=25, exclusive=True), 1.0),
        ("by memory, while nobody knows the share", a_job("a").needs(memory_bytes=1), 1.0),
        (
            "by memory, as placed",
            a_job("a").needs(memory_bytes=1, share_percent=30).runs_on("n/0"),
            0.3,
        ),
    ],
)
def test_what_a_share_weighs(story: str, job: JobBuilder, gpus: float) -> None:
    assert SRSF().weight(job.made) == pytest.approx(gpus), story


def test_unknown_ones_may_be_taken_to_run_for_a_time() -> None:
    jobs = [a_job("a"), knows(a_job("b"), 50), knows(a_job("c"), 150)]
    assert order_by(SRTF(unknown_seconds=100), *jobs) == ["b", "a", "c"]


def test_less_that_remains_preempts_and_unknown_ones_preempt_nobody() -> None:
    runs = knows(a_job("r").served(20).runs_on("n/0"), 60)
    assert preempts(SRTF(), knows(a_job("w"), 39), runs)
    assert not preempts(SRTF(), knows(a_job("w"), 40), runs), "as much is not less"
    assert not preempts(SRTF(), a_job("w"), a_job("r").served(20).runs_on("n/0"))
    assert preempts(SRTF(), knows(a_job("w"), 1e9), a_job("r").served(20).runs_on("n/0"))


def test_an_estimate_is_reviewed_at_twice_and_four_times_its_length() -> None:
    def review(job: Job, now: float) -> float:
        return SRTF().ranks([job], 8, now)["a"].until_seconds

    job = replace(knows(a_job("a").runs_on("n/0"), 60).made, as_of_seconds=1000.0, executed_seconds=10.0)
    assert review(job, 1000.0) == review(job, 1109.9) == 1110.0
    assert review(job, 1110.0) == review(job, 1229.9) == 1230.0
    assert SRTF().ranks([knows(a_job("a"), 60).made], 8, NOW)["a"].until_seconds == math.inf


def test_a_negative_time_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown_seconds is -1"):
        SRTF(unknown_seconds=-1)
