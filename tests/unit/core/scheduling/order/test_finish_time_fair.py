"""Finish-time fairness."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.scheduling import Job
from laneway.scheduling.order.finish_time_fair import FinishTimeFair

from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job
from tests.unit.core.scheduling.order.ranking import knows, order_by, preempts

POLICY = FinishTimeFair(interval_seconds=100, newcomer_seconds=60)


def rho(job: JobBuilder, share_gpus: float = 2.0) -> float:
    return POLICY.rho(job.made, share_gpus, NOW)


@pytest.mark.parametrize(
    ("story", "job", "want"),
    [
        ("just submitted, it has lost nothing", knows(a_job("a").created(NOW), 100), 1.0),
        ("it has waited as long as it runs", knows(a_job("a").created(NOW - 100), 100), 2.0),
        ("what it has run is no loss", knows(a_job("a").created(NOW - 40).served(40), 100), 1.0),
        (
            "alone in its share a gang of twice the size would take twice as long",
            knows(a_job("a").needs(4).created(NOW - 100), 100),
            1.0,
        ),
        ("unknown and new: it is taken to run for a minute", a_job("a").created(NOW - 60), 2.0),
        ("unknown: it is taken to run as long again", a_job("a").created(NOW - 100).served(100), 1.0),
        ("it has outrun its estimate by 20", knows(a_job("a").created(NOW - 120).served(120), 100), 1.0),
    ],
)
def test_rho(story: str, job: JobBuilder, want: float) -> None:
    assert rho(job) == pytest.approx(want), story


def test_whoever_sharing_delays_most_goes_first() -> None:
    short, long = knows(a_job("short").created(NOW - 50), 50), knows(a_job("long").created(NOW - 400), 500)
    assert order_by(POLICY, long, short) == ["short", "long"]


def test_more_jobs_leave_less_of_the_cluster_to_each() -> None:
    gang, single = (
        knows(a_job("gang").needs(4).created(NOW - 100), 100),
        knows(a_job("s").created(NOW - 60), 100),
    )
    assert order_by(POLICY, gang, single) == ["gang", "s"], "half of 8 GPUs holds the gang"
    others = [knows(a_job(f"o{number}").created(NOW), 100) for number in range(2)]
    assert order_by(POLICY, gang, single, *others)[:2] == ["s", "gang"]
    idle = [job.suspended() for job in others]
    assert order_by(POLICY, gang, single, *idle)[:2] == ["gang", "s"], "who does not compete does not count"


def test_a_lease_is_kept_and_then_lost_to_a_larger_rho() -> None:
    waits = knows(a_job("w").created(NOW - 500), 100)
    runs = knows(a_job("r").created(NOW - 150), 1000)
    assert not preempts(POLICY, waits, runs.runs_on("n/0", since=NOW - 99))
    assert preempts(POLICY, waits, runs.runs_on("n/0", since=NOW - 100))
    assert not preempts(POLICY, runs, waits.runs_on("n/0", since=NOW - 100))
    assert not preempts(POLICY, waits, runs.starts_on("n/0"))


def test_the_end_of_a_lease_is_announced() -> None:
    def until(job: Job) -> float:
        return POLICY.ranks([job], 8, NOW)["a"].until_seconds

    assert until(a_job("a").runs_on("n/0", since=NOW - 30).made) == NOW + 70
    assert until(replace(a_job("a").runs_on("n/0").made, started_seconds=NOW - 100)) > NOW + 1e9


def test_times_of_0_are_refused() -> None:
    with pytest.raises(ValueError, match="interval_seconds is 0"):
        FinishTimeFair(interval_seconds=0)
