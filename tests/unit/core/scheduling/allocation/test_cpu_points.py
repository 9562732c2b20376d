"""What a few measured points say of a job's need for CPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling.model.cpu_points import is_measured, merged, sensitivity_of

ANY = 1
"""Memory: it was not measured."""

cpus = st.integers(50, 128_000)
points = st.dictionaries(cpus, st.integers(1, 10**9), max_size=12)


def test_nothing_measured_says_nothing() -> None:
    assert sensitivity_of({}, 1000, 100) is None


def test_between_measured_points_throughput_is_interpolated() -> None:
    found = sensitivity_of({2000: 400, 4000: 200, 8000: 100}, 100, 100)
    assert found is not None
    assert found.ratio(8000, ANY) == 1
    assert found.ratio(3000, ANY) == pytest.approx(0.375)
    assert found.ratio(16_000, ANY) == 1


def test_half_a_gpu_counts_half() -> None:
    found = sensitivity_of({2000: 400, 4000: 200}, 100, 50)
    assert found is not None
    assert found.cpu_points_millis == (4000, 8000)


def test_a_gain_within_the_noise_is_none() -> None:
    found = sensitivity_of({2000: 1000, 4000: 990, 8000: 980}, 100, 100)
    assert found is not None
    assert found.ratio(2000, ANY) == 1


def test_one_point_of_a_job_that_waits_for_data_tells_how_many_cpus_its_gpu_could_use() -> None:
    """Half of each iteration is a wait for data: twice the CPUs keep the GPU busy."""
    found = sensitivity_of({2000: 1000}, 500, 100)
    assert found is not None
    assert found.ratio(2000, ANY) == 0.5
    assert found.ratio(4000, ANY) == 1


@pytest.mark.parametrize("gpu_microseconds", [950, 1000, 0])
def test_a_job_that_does_not_wait_needs_no_more_than_it_has(gpu_microseconds: int) -> None:
    found = sensitivity_of({2000: 1000}, gpu_microseconds, 100)
    assert found is not None
    assert found.ratio(2000, ANY) == 1


@given(points, points)
def test_newer_points_replace_those_at_nearly_the_same_cpus_and_few_are_kept(
    before: dict[int, int], newer: dict[int, int]
) -> None:
    found = merged(before, newer)
    assert list(found) == sorted(found)
    assert len(found) <= 8
    for kept, time in found.items():
        assert (newer if kept in newer else before)[kept] == time
        assert kept in newer or not is_measured(newer, kept)
    assert merged(found, {}) == found


@given(points, st.integers(0, 10**6), st.integers(1, 800))
def test_any_points_make_a_profile_that_never_falls(
    measured: dict[int, int], gpu_microseconds: int, percent: int
) -> None:
    found = sensitivity_of(measured, gpu_microseconds, percent)
    assert (found is None) == (not measured)
    if found is not None:
        ratios = [found.ratio(millis, ANY) for millis in found.cpu_points_millis]
        assert ratios == sorted(ratios)
        assert ratios[-1] == pytest.approx(1)
