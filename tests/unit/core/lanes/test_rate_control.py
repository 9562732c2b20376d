"""Each tenant's share of its progress alone, on a model of a contended device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laneway.lanes.rate_control import RateControl
from laneway.lanes.tenant_use import TenantUse

from tests.support.lanes.device_model import DeviceModel, ModelTenant
from tests.support.property_examples import examples

SETTLED_SECONDS = 3.0
"""From an arrival, at the latest, each tenant has its share. It is a second and a turn of each tenant in the cases below."""

MEASURED_SECONDS = 20.0
TURNS = 2 * 0.12 / MEASURED_SECONDS
"""Turns are whole: one begins before the time that is measured, and one ends after it."""


def progress(model: DeviceModel, seconds: float = MEASURED_SECONDS) -> list[float]:
    """Let time pass; return each tenant's progress alone in it, per second."""
    before = [each.progress_seconds for each in model.tenants]
    model.run(seconds)
    return [
        (tenant.progress_seconds - done) / seconds for tenant, done in zip(model.tenants, before, strict=True)
    ]


def shares(tenants: Sequence[ModelTenant]) -> list[float]:
    total = sum(each.weight for each in tenants)
    return [each.weight / total for each in tenants]


WEIGHTS = st.lists(st.sampled_from([10, 15, 20, 25, 40, 60]), min_size=2, max_size=5)
ITERATIONS = st.sampled_from([0.01, 0.02, 0.04])


@settings(max_examples=examples(20))
@given(WEIGHTS, ITERATIONS, st.sampled_from([0.0, 0.02, 0.1, 0.25]))
def test_each_tenant_has_its_share_of_a_saturated_device(
    weights: list[int], iteration_seconds: float, interference: float
) -> None:
    tenants = [ModelTenant(weight, iteration_seconds) for weight in weights]
    model = DeviceModel(tenants, interference)
    model.run(SETTLED_SECONDS)
    made = progress(model)
    for got, share in zip(made, shares(tenants), strict=True):
        assert got >= 0.95 * share - TURNS, (made, shares(tenants))


@settings(max_examples=examples(20))
@given(WEIGHTS, ITERATIONS, st.sampled_from([0.0, 0.02, 0.1, 0.25]))
def test_the_sum_is_at_least_what_plain_time_slicing_makes(
    weights: list[int], iteration_seconds: float, interference: float
) -> None:
    """Plain time slicing: kernels of all lanes compete, and the device loses what interference costs."""

    def sum_with(control: RateControl | None) -> float:
        tenants = [ModelTenant(weight, iteration_seconds) for weight in weights]
        model = DeviceModel(tenants, interference, control)
        model.run(SETTLED_SECONDS)
        return sum(progress(model))

    assert sum_with(RateControl()) >= 0.99 * sum_with(None)


@settings(max_examples=examples(20))
@example([51, 10], 0.01, 0.0)
@example([1, 1, 1, 22, 90], 0.04, 0.1)
@example([1, 100, 100, 100, 100], 0.04, 0.1)
@given(st.lists(st.integers(1, 100), min_size=2, max_size=5), ITERATIONS, st.sampled_from([0.0, 0.1]))
def test_trying_to_run_in_parallel_costs_a_full_device_one_iteration_of_a_tenant(
    weights: list[int], iteration_seconds: float, interference: float
) -> None:
    model = DeviceModel([ModelTenant(weight, iteration_seconds) for weight in weights], interference)
    model.run(SETTLED_SECONDS)
    # At first a tenant waits until its share has paid for an iteration beside all others. Then it is measured.
    of_smallest_share = iteration_seconds * sum(weights) / min(weights)
    until = MEASURED_SECONDS + (len(weights) + 2) * of_smallest_share
    while model.now < SETTLED_SECONDS + MEASURED_SECONDS or (model.overlaps < 1 and model.now < until):
        model.run(0.1)
        assert model.serial
    assert model.overlaps >= 1


def test_trials_become_rare_on_a_full_device() -> None:
    model = DeviceModel([ModelTenant(weight) for weight in (60, 20, 10, 10)])
    model.run(120.0)
    assert 3 <= model.overlaps <= 4, "after 2, 8 and 32 s of turns"


@pytest.mark.parametrize(
    ("story", "rival"),
    [
        ("a tenant joins", ModelTenant(30, arrives_seconds=60.0)),
        ("a tenant leaves", ModelTenant(30, leaves_seconds=60.0)),
        ("a tenant's iterations become longer", ModelTenant(30)),
    ],
)
def test_trials_begin_again_after_a_change(story: str, rival: ModelTenant) -> None:
    model = DeviceModel([ModelTenant(60), ModelTenant(20), rival])
    model.run(60.0)
    before = model.overlaps
    if rival.arrives_seconds == 0.0 and rival.leaves_seconds == float("inf"):
        rival.iteration_seconds = 0.05
    model.run(20.0)
    assert model.overlaps > before, story


@pytest.mark.parametrize(
    ("story", "demand", "least_sum"),
    [
        ("jobs that together need less than the device", 0.2, 3.7),
        ("jobs that use it half of the time", 0.5, 1.4),
    ],
)
def test_lanes_run_in_parallel_where_all_gain(story: str, demand: float, least_sum: float) -> None:
    tenants = [ModelTenant(weight, demand=demand) for weight in (60, 20, 10, 10)]
    model = DeviceModel(tenants)
    model.run(SETTLED_SECONDS)
    made = progress(model)
    assert sum(made) >= least_sum
    for got, share in zip(made, shares(tenants), strict=True):
        assert got >= 0.95 * share, f"{story}: {made}"


def test_a_job_that_loads_data_between_iterations_has_its_share_of_its_progress_alone() -> None:
    loader = ModelTenant(60, gap_seconds=0.02)
    tenants = [loader, *(ModelTenant(weight) for weight in (20, 10, 10))]
    model = DeviceModel(tenants, 0.05)
    model.run(SETTLED_SECONDS)
    made = progress(model)
    alone = [0.5, 1.0, 1.0, 1.0]
    for got, share, of_alone in zip(made, shares(tenants), alone, strict=True):
        assert got >= 0.95 * share * of_alone, made


def loaders(*cycles: tuple[float, float]) -> list[ModelTenant]:
    """Tenants that load data for a part of their time: by the part on the device and the time of both, alone."""
    return [
        ModelTenant(100, part * seconds, gap_seconds=(1 - part) * seconds, gap_spread=0.2)
        for part, seconds in cycles
    ]


def speeds(
    tenants: Sequence[ModelTenant], control: RateControl | None, seconds: float = 120.0
) -> list[float]:
    """Return each tenant's speed in a time that begins with their arrival; 1 is its speed alone."""
    model = DeviceModel(tenants, 0.0, control)
    model.run(seconds)
    return [each.completed * (each.iteration_seconds + each.gap_seconds) / seconds for each in tenants]


@pytest.mark.parametrize(
    ("story", "cycles", "least"),
    [
        ("two that use half of the device", [(0.5, 0.2), (0.5, 0.2)], 0.94),
        ("two with short iterations", [(0.5, 0.04), (0.5, 0.04)], 0.9),
        ("one that uses much of it beside one that uses little", [(0.3, 0.3), (0.7, 0.3)], 0.94),
        ("one that uses more than half of it beside one that uses less", [(0.4, 0.25), (0.6, 0.25)], 0.94),
        ("two that use more than there is", [(0.6, 0.25), (0.6, 0.25)], 0.82),
        ("two that use little", [(0.3, 0.3), (0.3, 0.3)], 0.94),
    ],
)
def test_lanes_take_turns_where_tenants_then_do_more(
    story: str, cycles: list[tuple[float, float]], least: float
) -> None:
    controlled, parallel = speeds(loaders(*cycles), RateControl()), speeds(loaders(*cycles), None)
    assert min(controlled) >= least, f"{story}: {controlled}, in parallel {parallel}"
    assert sum(controlled) > 1.03 * sum(parallel), f"{story}: {controlled}, in parallel {parallel}"


def test_lanes_run_in_parallel_where_a_tenant_would_wait_for_long_iterations_of_another_each_time() -> None:
    """In turns, the short one has one iteration between two long ones, and makes a quarter of its speed alone."""
    short, long = speeds(loaders((0.5, 0.1), (0.75, 0.4)), RateControl())
    assert short >= 0.6
    assert long >= 0.6


@settings(max_examples=examples(20))
@given(
    st.lists(
        st.tuples(st.sampled_from([0.2, 0.3, 0.5, 0.7, 0.9]), st.sampled_from([0.05, 0.1, 0.2, 0.3])),
        min_size=2,
        max_size=4,
    ),
    st.sampled_from([0.5, 1.0]),
)
def test_tenants_that_load_data_do_no_less_than_in_parallel(
    cycles: list[tuple[float, float]], demand: float
) -> None:
    def work(control: RateControl | None) -> float:
        tenants = loaders(*cycles)
        for each in tenants:
            each.demand = demand
        DeviceModel(tenants, 0.0, control).run(120.0)
        return sum(each.progress_seconds for each in tenants)

    assert work(RateControl()) >= 0.94 * work(None)


def test_a_device_that_runs_both_at_full_speed_is_not_tried_in_turns_often() -> None:
    tenants = loaders((0.5, 0.2), (0.5, 0.2))
    for each in tenants:
        each.demand = 0.4
    assert min(speeds(tenants, RateControl())) >= 0.97


@settings(max_examples=examples(20))
@given(st.integers(2, 5), st.sampled_from([0.2, 0.5, 1.0]), st.sampled_from([0.0, 0.1, 10.0]))
def test_false_reports_of_a_tenant_that_loads_data_cost_no_other_its_share(
    number: int, gap: float, reported_iterations: float
) -> None:
    tenants = [ModelTenant(25, gap_seconds=gap * 0.02, gap_spread=0.2) for _ in range(number)]
    tenants[0].reported_iterations = reported_iterations
    model = DeviceModel(tenants, 0.0)
    model.run(SETTLED_SECONDS)
    made = progress(model)
    alone = 1.0 / (1.0 + gap)
    for got, share in zip(made[1:], shares(tenants)[1:], strict=True):
        assert got >= 0.95 * share * alone - TURNS, made


@settings(max_examples=examples(20))
@given(WEIGHTS, st.sampled_from([0.0, 0.1]), st.sampled_from([2.0, 4.3, 7.7]))
def test_shares_hold_again_soon_after_arrivals_and_leaves(
    weights: list[int], interference: float, moment: float
) -> None:
    staying = [ModelTenant(weight) for weight in weights]
    leaving = ModelTenant(30, leaves_seconds=moment)
    coming = ModelTenant(30, arrives_seconds=moment)
    model = DeviceModel([*staying, leaving, coming], interference)
    model.run(moment + SETTLED_SECONDS)
    made = progress(model)
    active = [*staying, coming]
    at = [*range(len(staying)), len(staying) + 1]
    for number, share in zip(at, shares(active), strict=True):
        assert made[number] >= 0.95 * share - TURNS, made
    assert made[len(staying)] == 0.0


@settings(max_examples=examples(20))
@given(WEIGHTS)
def test_no_tenant_waits_longer_than_a_round_of_turns(weights: list[int]) -> None:
    tenants = [ModelTenant(weight) for weight in weights]
    model = DeviceModel(tenants, 0.1)
    model.run(SETTLED_SECONDS)
    round_seconds = 0.14 * sum(weights) / min(weights)
    """Turns of a quantum and an iteration."""
    for _ in range(3):
        assert min(progress(model, 2 * round_seconds)) > 0.0


@pytest.mark.parametrize(
    ("story", "reported_iterations", "reported_busy"),
    [
        ("few iterations", 0.1, 1.0),
        ("no iterations", 0.0, 1.0),
        ("long iterations", 1.0, 10.0),
        ("long iterations, and few", 0.1, 10.0),
        ("many iterations", 10.0, 1.0),
        ("short iterations", 1.0, 0.1),
    ],
)
@pytest.mark.parametrize("demand", [1.0, 0.5])
@pytest.mark.parametrize("weights", [(25, 25, 25, 25), (10, 60, 20, 10)])
def test_false_reports_gain_no_more_than_the_share(
    story: str, reported_iterations: float, reported_busy: float, demand: float, weights: tuple[int, ...]
) -> None:
    liar, *honest = (ModelTenant(weight, demand=demand) for weight in weights)
    liar.reported_iterations, liar.reported_busy = reported_iterations, reported_busy
    model = DeviceModel([liar, *honest], 0.05)
    model.run(SETTLED_SECONDS)
    alone_before = liar.device_alone_seconds
    made = progress(model)
    alone = (liar.device_alone_seconds - alone_before) / MEASURED_SECONDS
    mine, *theirs = shares([liar, *honest])
    assert alone <= 1.05 * mine + TURNS, f"{story}: it has the device for itself for {alone:.3f}"
    for got, share in zip(made[1:], theirs, strict=True):
        assert got >= 0.95 * share - TURNS, f"{story}: {made}"


def test_one_active_tenant_changes_nothing() -> None:
    tenants = [ModelTenant(60), ModelTenant(40, leaves_seconds=0.0)]
    model = DeviceModel(tenants)
    assert progress(model, 5.0)[0] == pytest.approx(1.0, abs=0.01)
    assert tenants[0].turns == 1


def test_tenants_of_one_lane_need_no_control() -> None:
    control = RateControl()
    for tick in range(100):
        uses = [
            TenantUse("a", 0, 50, tick, tick * 0.01, True, 1, tick * 0.05, turn_began_seconds=0.0),
            TenantUse("b", 0, 50, 0, 0.0, False, 0, 0.0, waiting_since_seconds=0.0),
        ]
        assert not control.observe(uses, tick * 0.05)
    assert not control.contended


def test_the_progress_ratio_of_each_tenant_is_known() -> None:
    model = DeviceModel([ModelTenant(60), ModelTenant(40)], 0.1)
    model.run(20.0)
    assert model.control is not None
    ratios = model.control.progress_ratios()
    assert ratios["tenant-0"] == pytest.approx(0.6, abs=0.08)
    assert ratios["tenant-1"] == pytest.approx(0.4, abs=0.08)


def test_what_happened_while_nobody_looked_is_no_lag() -> None:
    model = DeviceModel([ModelTenant(60), ModelTenant(40)], 0.0)
    model.run(5.0)
    control = model.control
    assert control is not None
    uses = [tenant.use(lane) for lane, tenant in enumerate(model.tenants)]
    control.observe(uses, model.now + 100.0)
    assert set(control.first_services().values()) == {0.0}


def test_a_tenant_that_yielded_late_is_due_again_once_the_others_had_their_shares_of_that_time() -> None:
    control = RateControl()

    def use(key: str, weight: int, charged_seconds: float, **at: Any) -> TenantUse:
        return TenantUse(key, int(key == "late"), weight, 0, 0.0, True, 1, charged_seconds, **at)

    for tick in range(1, 101):
        now = tick * 0.1
        control.observe(
            [use("honest", 90, now, turn_began_seconds=0.0), use("late", 10, now, late=True)], now
        )
        assert not control.contended, "only one lane takes turns"
    assert control.is_overdrawn("late")
    waits = use("late", 10, 10.0, waiting_since_seconds=10.0)
    assert control.observe([use("honest", 90, 10.1, turn_began_seconds=0.0), waits], 10.1)
    services = control.first_services()
    due_seconds = (services["late"] / 10 - services["honest"] / 90) * 90
    assert due_seconds >= 9 * 0.9 * 9.8, (
        "the others have nine times as much; the first 0.1 s was not observed"
    )
    for tick in range(1, 700):
        now = 10.1 + tick * 0.1
        assert control.observe([use("honest", 90, now, turn_began_seconds=0.0), waits], now), (
            "the lanes take turns until it has had one"
        )
