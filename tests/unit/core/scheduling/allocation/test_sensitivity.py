"""How throughput depends on CPUs and memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling.allocation.minio import MinIOSensitivity
from laneway.scheduling.model.sensitivity import (
    SLACK,
    MeasuredSensitivity,
    best_demand,
    least_cpu_millis,
    least_memory_bytes,
)

from tests.unit.core.scheduling.allocation.builders import GIB, HUNGRY, MODEST, cpu_curve

TABLE = MeasuredSensitivity.from_throughputs(
    {
        (1000, 16 * GIB): 10,
        (1000, 64 * GIB): 12,
        (4000, 16 * GIB): 20,
        (4000, 64 * GIB): 48,
        (8000, 16 * GIB): 20,
        (8000, 64 * GIB): 60,
    }
)


@pytest.mark.parametrize(
    ("cpu_millis", "memory_gib", "throughput"),
    [
        (1000, 16, 10),
        (8000, 64, 60),
        (6000, 64, 54),  # half way between 48 and 60
        (4000, 40, 34),  # half way between 20 and 48
        (6000, 40, 37),  # half way between 34 and 40
        (500, 64, 6),  # half of what one CPU gives
        (0, 64, 0),
        (8000, 15, 0),  # it is unknown whether it runs with less memory than was tried
        (90_000, 900, 60),
    ],
)
def test_between_measurements_throughput_goes_in_straight_lines(
    cpu_millis: int, memory_gib: int, throughput: float
) -> None:
    assert TABLE.ratio(cpu_millis, memory_gib * GIB) == pytest.approx(throughput / 60)


def test_a_measurement_that_falls_is_noise() -> None:
    noisy = cpu_curve({1: 50.0, 2: 100.0, 3: 98.0})
    assert noisy.ratios == ((0.5,), (1.0,), (1.0,))


def test_a_missing_combination_is_named() -> None:
    with pytest.raises(ValueError, match=r"no throughput for \[\(2000, 1\)\]"):
        MeasuredSensitivity.from_throughputs({(1000, 1): 1, (1000, 2): 1, (2000, 2): 1})


def test_nothing_that_ran_is_no_profile() -> None:
    with pytest.raises(ValueError, match="at least one of them above 0"):
        MeasuredSensitivity.from_throughputs({(1000, 1): 0.0})


@pytest.mark.parametrize(
    ("cpus", "memories", "ratios", "message"),
    [
        ((2000, 1000), (1,), ((0.5,), (1.0,)), "each larger than the last"),
        ((1000,), (), ((),), "memory points"),
        ((1000, 2000), (1,), ((1.0,),), "write 2 rows of 1"),
        ((1000, 2000), (1,), ((1.0,), (0.5,)), "ratios fall"),
        ((1000, 2000), (1,), ((0.5,), (0.9,)), "parts of the best"),
    ],
)
def test_a_table_that_cannot_be_says_why(
    cpus: tuple[int, ...], memories: tuple[int, ...], ratios: tuple[tuple[float, ...], ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        MeasuredSensitivity(cpus, memories, ratios)


def test_the_best_demand_is_the_least_that_reaches_the_best() -> None:
    best = best_demand(TABLE, 24_000, 512 * GIB, 0.0)
    assert best.cpu_millis == 8000
    assert best.memory_bytes == pytest.approx(64 * GIB)
    assert best.ratio == pytest.approx(1.0)
    assert best_demand(MODEST, 24_000, 512 * GIB, 0.0).cpu_millis == 1000


def test_the_best_demand_keeps_to_the_limits() -> None:
    best = best_demand(HUNGRY, 6000, 512 * GIB, 0.0)
    assert best.cpu_millis == 6000
    assert best.ratio == pytest.approx(55 / 90)


def test_a_tolerance_saves_what_brings_next_to_nothing() -> None:
    knee = cpu_curve({2: 50.0, 4: 99.5, 16: 100.0})
    assert best_demand(knee, 24_000, GIB * 64, 0.01).cpu_millis < 4000
    assert best_demand(knee, 24_000, GIB * 64, 0.0).cpu_millis == 16_000


def minio(storage_bytes_per_second: float) -> MinIOSensitivity:
    """100 GiB of data, of which a GPU reads 100 MB a second at best, beside 10 GiB that the job needs anyway."""
    return MinIOSensitivity(
        cpu_curve({1: 1.0, 4: 4.0}, memory_bytes=10 * GIB), 100 * GIB, 100e6, storage_bytes_per_second
    )


@pytest.mark.parametrize(
    ("cpu_millis", "memory_gib", "ratio"),
    [
        (4000, 110, 1.0),  # all cached
        (4000, 500, 1.0),
        (4000, 10, 0.25),  # nothing cached: what storage delivers
        (4000, 60, 0.5),  # half cached: storage has only the other half to deliver
        (4000, 85, 1.0),  # three quarters cached: storage keeps up with the rest
        (1000, 10, 0.25),  # CPUs and storage equally slow
        (1000, 85, 0.25),
        (4000, 9, 0.0),
    ],
)
def test_a_minio_cache_hits_the_part_of_the_data_that_it_holds(
    cpu_millis: int, memory_gib: int, ratio: float
) -> None:
    assert minio(25e6).ratio(cpu_millis, memory_gib * GIB) == pytest.approx(ratio)


def test_fast_storage_makes_memory_indifferent() -> None:
    best = best_demand(minio(200e6), 24_000, 512 * GIB, 0.0)
    assert (best.cpu_millis, best.memory_bytes) == (4000, 10 * GIB)


def test_slow_storage_asks_for_the_cache_that_keeps_it_from_mattering() -> None:
    best = best_demand(minio(25e6), 24_000, 512 * GIB, 0.0)
    assert best.memory_bytes == pytest.approx(85 * GIB, rel=1e-6)


def test_minio_models_memory_only_where_none_was_measured() -> None:
    with pytest.raises(ValueError, match="use MeasuredSensitivity alone"):
        MinIOSensitivity(TABLE, GIB, 1e6, 1e6)


@st.composite
def profiles(draw: st.DrawFn) -> MeasuredSensitivity:
    cpus = draw(st.lists(st.integers(1, 24), min_size=1, max_size=4, unique=True))
    memories = draw(st.lists(st.integers(1, 256), min_size=1, max_size=3, unique=True))
    return MeasuredSensitivity.from_throughputs(
        {
            (1000 * cpu, memory * GIB): draw(st.floats(0.01, 1000))
            for cpu in sorted(cpus)
            for memory in sorted(memories)
        }
    )


@given(profiles(), st.integers(0, 30_000), st.integers(0, 300), st.integers(0, 5000), st.integers(0, 50))
def test_more_of_anything_never_slows_a_job(
    profile: MeasuredSensitivity, cpu: int, memory: int, more_cpu: int, more_memory: int
) -> None:
    less = profile.ratio(cpu, memory * GIB)
    assert 0 <= less <= profile.ratio(cpu + more_cpu, (memory + more_memory) * GIB) + SLACK <= 1 + 2 * SLACK


@given(profiles(), st.integers(1, 30_000), st.integers(1, 300))
def test_the_least_that_reaches_a_ratio_reaches_it_and_less_does_not(
    profile: MeasuredSensitivity, cpu_limit: int, memory_limit: int
) -> None:
    wanted = 0.7 * profile.ratio(cpu_limit, memory_limit * GIB)
    cpu = least_cpu_millis(profile, wanted, cpu_limit, memory_limit * GIB)
    memory = least_memory_bytes(profile, wanted, cpu, memory_limit * GIB)
    assert profile.ratio(cpu, memory) >= wanted - SLACK
    if wanted > SLACK:
        assert profile.ratio(cpu - 1, memory_limit * GIB) < wanted
        assert profile.ratio(cpu, memory - 1) < wanted
