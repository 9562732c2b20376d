"""The work of tenants in turns and in parallel, counted from their iterations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.lanes.mode_comparison import ModeComparison
from laneway.lanes.tenant_use import TenantUse


def use(key: str, iterations: int) -> TenantUse:
    return TenantUse(key, 0, 100, iterations, 0.0, False, 0, 0.0)


def counted(
    modes: ModeComparison, serial: bool | None, paces: dict[str, float], seconds: float, begin: float = 0.0
) -> None:
    """Let tenants run at a pace, in iterations per second."""
    for tick in range(round(seconds / 0.05)):
        now = begin + 0.05 * tick
        modes.observe([use(key, int(pace * now)) for key, pace in paces.items()], serial, now)


@given(st.floats(2.0, 50.0), st.floats(2.0, 50.0), st.floats(10.0, 200.0), st.booleans())
def test_work_is_iterations_times_their_time_alone(
    one: float, other: float, seconds: float, serial: bool
) -> None:
    modes = ModeComparison(least_iterations=1, least_seconds=1.0)
    counted(modes, serial, {"a": one, "b": other}, seconds)
    work = modes.work(serial, {"a": 0.01, "b": 0.02})
    assert work == pytest.approx(0.01 * one + 0.02 * other, rel=0.2)
    assert modes.work(not serial, {"a": 0.01, "b": 0.02}) is None


@pytest.mark.parametrize(
    ("story", "paces", "seconds", "alone"),
    [
        ("too few iterations of one", {"a": 20.0, "b": 1.0}, 10.0, {"a": 0.01, "b": 0.1}),
        ("too short a time", {"a": 20.0, "b": 20.0}, 3.0, {"a": 0.01, "b": 0.1}),
        ("the time alone of one is not known", {"a": 20.0, "b": 20.0}, 10.0, {"a": 0.01, "b": None}),
        ("one reports nothing", {"a": 20.0, "b": 0.0}, 100.0, {"a": 0.01, "b": 0.1}),
    ],
)
def test_work_is_not_known_too_early(
    story: str, paces: dict[str, float], seconds: float, alone: dict[str, float | None]
) -> None:
    modes = ModeComparison(least_iterations=12, least_seconds=4.0)
    counted(modes, True, paces, seconds)
    assert modes.work(True, alone) is None, story


def test_the_iteration_in_which_a_phase_begins_counts_for_neither_mode() -> None:
    modes = ModeComparison(least_iterations=1, least_seconds=1.0)
    counted(modes, True, {"a": 1.0, "b": 1.0}, 10.0)
    counted(modes, False, {"a": 2.0, "b": 2.0}, 10.4, begin=10.0)
    alone = {"a": 0.1, "b": 0.1}
    assert modes.work(True, alone) == pytest.approx(0.2, rel=0.15)
    assert modes.work(False, alone) == pytest.approx(0.4, rel=0.15)


@pytest.mark.parametrize(
    ("story", "paces"),
    [
        ("a tenant joins", {"a": 20.0, "b": 20.0, "c": 20.0}),
        ("a tenant leaves", {"a": 20.0}),
        ("another tenant comes", {"a": 20.0, "c": 20.0}),
    ],
)
def test_other_tenants_are_measured_again(story: str, paces: dict[str, float]) -> None:
    modes = ModeComparison(least_iterations=1, least_seconds=1.0)
    counted(modes, True, {"a": 20.0, "b": 20.0}, 10.0)
    counted(modes, True, paces, 0.5, begin=10.0)
    assert modes.work(True, dict.fromkeys("abc", 0.1)) is None, story


def test_a_process_that_starts_again_takes_back_nothing() -> None:
    modes = ModeComparison(least_iterations=1, least_seconds=1.0)
    counted(modes, True, {"a": 20.0, "b": 20.0}, 10.0)
    modes.observe([use("a", 0), use("b", 205)], True, 10.0)
    assert modes.work(True, {"a": 0.01, "b": 0.01}) == pytest.approx(0.4, rel=0.1)


def test_a_mode_is_measured_again_once_it_is_forgotten() -> None:
    modes = ModeComparison(least_iterations=1, least_seconds=1.0)
    counted(modes, True, {"a": 20.0, "b": 20.0}, 10.0)
    modes.forget(serial=True)
    assert modes.work(True, {"a": 0.01, "b": 0.01}) is None
