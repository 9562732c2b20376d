"""Who is owed time, who goes first for it, and for how long."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling import JobState
from laneway.scheduling.fairness.claims import (
    LONGEST_QUANTUM_SECONDS,
    claim,
    quantum_seconds,
)

from tests.unit.core.scheduling.builders import NOW, a_job

QUANTUM = 100.0


def waits(waited: float, executed: float = 0.0):
    return replace(a_job("a").made, waiting_since_seconds=NOW - waited, executed_seconds=executed)


def runs(since: float, waited: float, executed: float):
    job = a_job("a").runs_on("n/0", since=since).made
    return replace(job, waited_before_seconds=waited, executed_seconds=executed, as_of_seconds=NOW)


def test_a_quantum_is_ten_times_what_a_preemption_costs() -> None:
    assert quantum_seconds(50.0) == 500.0


@pytest.mark.parametrize(
    ("waited", "executed", "share", "first", "until"),
    [
        (399.0, 0.0, 0.25, False, NOW + 1),
        (400.0, 0.0, 0.25, True, math.inf),
        (400.0, 200.0, 0.25, False, NOW + 600),  # what it ran counts against it
        (1000.0, 200.0, 0.25, True, math.inf),
        (1e9, 0.0, 0.0, False, math.inf),  # nothing is guaranteed
        (99.0, 1e6, 1.0, False, NOW + 1),  # there is room for all: only the wait counts
    ],
)
def test_who_is_owed_a_quantum_goes_first(
    waited: float, executed: float, share: float, first: bool, until: float
) -> None:
    found = claim(waits(waited, executed), share, QUANTUM, NOW)
    assert found.first is first
    assert found.until_seconds == pytest.approx(until)


def test_a_job_that_may_not_compete_has_no_claim() -> None:
    assert not claim(replace(waits(1e6), waiting_since_seconds=math.inf), 0.5, QUANTUM, NOW).first
    assert not claim(replace(waits(1e6), suspended=True), 0.5, QUANTUM, NOW).first
    assert not claim(a_job("a").created(0).starts_on("n/0").made, 0.5, QUANTUM, NOW).first


def test_a_clock_that_was_set_back_takes_no_earlier_wait_from_a_job() -> None:
    """It was preempted at 3000 s from now, as the clock says after a step of an hour back."""
    job = replace(waits(0), waiting_since_seconds=NOW + 3000, waited_before_seconds=2000.0)
    assert claim(job, 0.25, QUANTUM, NOW).first
    assert not claim(replace(job, waited_before_seconds=300.0), 0.25, QUANTUM, NOW).first


def test_it_runs_until_nothing_is_owed() -> None:
    """At a share of a quarter, 800 s of waiting are worth 267 s of running."""
    found = claim(runs(NOW, waited=800, executed=0), 0.25, QUANTUM, NOW)
    assert found == (True, pytest.approx(NOW + 800 / 3))
    assert claim(runs(NOW - 266, waited=800, executed=266), 0.25, QUANTUM, NOW).first
    assert not claim(runs(NOW - 267, waited=800, executed=267), 0.25, QUANTUM, NOW).first


def test_it_does_not_run_first_without_end() -> None:
    found = claim(runs(NOW, waited=1e6, executed=0), 0.5, QUANTUM, NOW)
    assert found == (True, NOW + LONGEST_QUANTUM_SECONDS)
    assert claim(runs(NOW, waited=1e6, executed=0), 1.0, QUANTUM, NOW) == found
    assert not claim(runs(NOW - LONGEST_QUANTUM_SECONDS, waited=1e6, executed=0), 0.5, QUANTUM, NOW).first


def test_a_job_that_started_by_its_rank_can_be_preempted() -> None:
    assert not claim(runs(NOW, waited=199, executed=0), 0.25, QUANTUM, NOW).first


@given(
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.floats(0.01, 0.99),
    st.floats(1, 1e4),
    st.booleans(),
    st.floats(0, 1e4),
)
def test_a_claim_says_exactly_until_when_it_holds(
    waited: float, executed: float, share: float, quantum: float, running: bool, later: float
) -> None:
    job = runs(NOW, waited, executed) if running else waits(waited, executed)
    found = claim(job, share, quantum, NOW)
    if found.until_seconds < math.inf:
        assert claim(job, share, quantum, found.until_seconds + 0.01).first is not found.first
        before = NOW + (found.until_seconds - NOW) / 2
        if found.until_seconds - before > 0.01:
            assert claim(job, share, quantum, before) == found
    if not running and found.first:
        assert claim(job, share, quantum, NOW + later).first
    assert job.state is (JobState.RUNNING if running else JobState.WAITING)
