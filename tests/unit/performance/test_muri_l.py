"""The reference of Muri-L, on traces small enough to be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling import Demand, Profile
from laneway.scheduling.model.interference import Load
from laneway.scheduling.model.snapshot import StageSeconds
from laneway.simulator import TraceJob

from tests.performance.muri_l import completion_seconds, matched

READS, COMPUTES = StageSeconds(1.0, 0.0, 0.0, 0.0), StageSeconds(0.0, 0.0, 1.0, 0.0)


class OneAtATime:
    """Jobs share each resource equally, and lose nothing by that; or more."""

    def __init__(self, slowdown: float = 1.0) -> None:
        self._slowdown = slowdown

    def speed_ratios(self, loads: Sequence[Load]) -> tuple[float, ...]:
        """Return the speed of each job."""
        alike = [sum(other.stages == load.stages for other in loads) for load in loads]
        return tuple(1 / each / (self._slowdown if len(loads) > 1 else 1) for each in alike)


def job(
    name: int, submit_seconds: float, duration_seconds: float, stages: StageSeconds, gpus: int = 1
) -> TraceJob:
    profile = Profile(0, 0, iteration_seconds=1.0, stages=stages)
    return TraceJob(f"default/{name}", Demand(gpus), submit_seconds, duration_seconds, profile=profile)


def test_jobs_that_use_different_resources_share_a_gpu() -> None:
    trace = [job(0, 0, 100, READS), job(1, 0, 100, READS), job(2, 0, 100, COMPUTES), job(3, 0, 100, COMPUTES)]
    assert completion_seconds(trace, OneAtATime(), gpus=2) == pytest.approx([100.0] * 4)


def test_jobs_that_fit_alone_do_not_share() -> None:
    trace = [job(0, 0, 100, READS), job(1, 0, 100, READS)]
    assert completion_seconds(trace, OneAtATime(), gpus=2) == pytest.approx([100.0] * 2)


def test_jobs_of_different_widths_do_not_share() -> None:
    trace = [job(0, 0, 100, READS, gpus=2), job(1, 10, 100, COMPUTES)]
    found = completion_seconds(trace, OneAtATime(), gpus=2)
    assert found == pytest.approx([100.0, 200.0])  # the second preempts the first, which has attained more


def test_a_group_that_does_less_than_one_job_alone_is_dissolved() -> None:
    trace = [job(0, 0, 100, READS), job(1, 0, 100, COMPUTES)]
    assert completion_seconds(trace, OneAtATime(slowdown=4), gpus=1) == pytest.approx([100.0, 200.0])


def test_a_job_that_starts_again_pays_for_it() -> None:
    trace = [job(0, 0, 100, READS), job(1, 10, 50, READS)]
    found = completion_seconds(trace, OneAtATime(slowdown=4), gpus=1, move_seconds=5)
    assert found == pytest.approx([50.0, 155.0])


@given(st.data(), st.integers(0, 6))
def test_a_matching_has_half_of_the_largest_weight(data: st.DataObject, count: int) -> None:
    weights = {pair: data.draw(st.integers(0, 9)) for pair in combinations(range(count), 2)}
    pairs = matched(count, lambda one, other: float(weights[one, other]))
    assert len({each for pair in pairs for each in pair}) == 2 * len(pairs)
    assert all(weights[pair] > 0 for pair in pairs)
    assert 2 * sum(weights[pair] for pair in pairs) >= largest(weights, frozenset(range(count)))


def largest(weights: dict[tuple[int, int], int], free: frozenset[int]) -> int:
    """Return the largest sum of weights of a matching."""
    left = [weights[pair] + largest(weights, free.difference(pair)) for pair in combinations(sorted(free), 2)]
    return max(left, default=0)
