"""The services of ended jobs: a histogram, and the distribution that it stands for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import Scheduler, policies
from laneway.scheduling.model.past_services import (
    MOST_BIN,
    NO_SERVICES,
    PastServices,
    ServiceCount,
    ServiceLog,
    bin_of,
    bounds_gpu_seconds,
    is_news,
)
from laneway.scheduling.order.gittins_index import learnt_table
from laneway.scheduling.order.tiresias_gittins import TiresiasGittins

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import NOW, a_job, a_node
from tests.unit.core.scheduling.order.ranking import order_by

quick = settings(max_examples=examples(60))

COUNTS = st.dictionaries(
    st.integers(0, 40), st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(any), min_size=1, max_size=12
).map(lambda found: PastServices(tuple(ServiceCount(number, *found[number]) for number in sorted(found))))


def past_of(*services: float, stopped: tuple[float, ...] = ()) -> PastServices:
    log = ServiceLog()
    for service in services:
        log.note(service, completed=True)
    return log.past().with_stopped(stopped)


@pytest.mark.parametrize("service", [0.0, 0.5, 1.0, 1.2, 600.0, 1e9, 1e15])
def test_a_bin_holds_the_services_between_its_bounds(service: float) -> None:
    number = bin_of(service)
    assert 0 <= number <= MOST_BIN
    low, high = bounds_gpu_seconds(number)
    assert low <= service
    assert service < high or number == MOST_BIN


@quick
@given(COUNTS)
def test_the_probabilities_are_a_distribution(past: PastServices) -> None:
    found = past.distribution()
    assert sum(probability for *_, probability in found) <= 1 + 1e-9
    assert all(probability >= 0 for *_, probability in found)
    assert [low for low, *_ in found] == sorted(low for low, *_ in found)
    if not past.stopped:
        probabilities = [probability for *_, probability in found]
        assert probabilities == pytest.approx([each.completed / past.completed for each in past.counts])


def test_stopped_jobs_are_known_to_need_more() -> None:
    early = past_of(*[100.0] * 4, stopped=(10.0,) * 4)
    assert [probability for *_, probability in early.distribution()] == [1.0], "all end that reached 100"
    late = past_of(*[100.0] * 4, stopped=(1000.0,) * 4)
    assert [probability for *_, probability in late.distribution()] == [0.5], "half of them go on"
    assert learnt_table(late, 1000.0).index(0) == pytest.approx(0.5 / (0.5 * 100 + 0.5 * 1000), rel=0.05)


@quick
@given(
    st.lists(st.integers(2, 10**6).map(float), min_size=1, max_size=20),
    st.integers(1, 10**5),
    st.integers(0, 10**6),
)
def test_the_index_is_nearly_that_of_samples_spread_over_the_bins(
    services: list[float], quantum: int, attained: int
) -> None:
    table = learnt_table(past_of(*services), float(quantum))
    assert table.index(attained) >= 0
    spread = [
        low + (high - low) * (part + 0.5) / 200
        for low, high in (bounds_gpu_seconds(bin_of(each)) for each in services)
        for part in range(200)
    ]
    step = max((step for step in table.samples_gpu_seconds if step <= attained), default=0.0)
    left = [sample - step for sample in spread if sample > step]
    if not left:
        assert table.index(attained) == 0
        return
    ends = sum(rest <= quantum for rest in left) / len(left)
    mean = sum(min(rest, quantum) for rest in left) / len(left)
    assert table.index(attained) * mean == pytest.approx(ends, abs=0.02)


@quick
@given(COUNTS, COUNTS)
def test_logs_add_up_and_subtract(one: PastServices, other: PastServices) -> None:
    log = ServiceLog()
    log.add(one.counts)
    log.add(other.counts)
    both = log.past()
    assert (both.completed, both.stopped) == (one.completed + other.completed, one.stopped + other.stopped)
    log.add(other.counts, sign=-1)
    assert log.past() == one


def test_a_twentieth_is_news() -> None:
    assert not is_news(NO_SERVICES, NO_SERVICES)
    assert is_news(NO_SERVICES, past_of(5.0))
    hundred = past_of(*[5.0] * 100)
    assert not is_news(hundred, past_of(*[5.0] * 104))
    assert is_news(hundred, past_of(*[5.0] * 106))
    assert is_news(hundred, NO_SERVICES), "a namespace was deleted"


def test_before_enough_jobs_have_ended_it_orders_as_las_does() -> None:
    runs, early, late = (
        a_job("runs").served(90).runs_on("n/0"),
        a_job("early").created(1),
        a_job("late").created(2),
    )
    few = TiresiasGittins(learn_after_jobs=3).informed(past_of(*[10.0] * 2))
    assert order_by(few, late, early, runs) == ["runs", "early", "late"]
    enough = TiresiasGittins(learn_after_jobs=3).informed(past_of(*[10.0] * 3))
    assert order_by(enough, late, early, runs) == ["early", "late", "runs"], (
        "no job was served so long before"
    )


def test_a_scheduler_learns_while_it_runs() -> None:
    """A new job would pass one that is near its end, until the scheduler learns that most jobs end there."""
    chosen = policies(
        order="tiresias-gittins", order_options={"quantum_gpu_seconds": 400.0, "learn_after_jobs": 9}
    )
    scheduler = Scheduler([a_node("n", 0)], chosen)
    scheduler.observe(a_job("early").created(1).served(100).made)
    scheduler.observe(a_job("near").created(2).served(2950).made)
    assert scheduler.plan(NOW).order == ("early", "near")
    assert scheduler.learn_services(past_of(*range(100, 3001, 25)), NOW)
    assert scheduler.plan(NOW).order == ("near", "early")
    assert not scheduler.learn_services(past_of(*range(100, 3026, 25)), NOW), (
        "one more of a hundred changes little"
    )


@pytest.mark.parametrize(
    ("order", "options", "learns"),
    [
        ("tiresias-gittins", {}, True),
        ("tiresias-gittins", {"learn_after_jobs": 0}, False),
        ("tiresias-gittins", {"samples_gpu_seconds": (5.0,)}, False),
        ("multilevel-las", {}, False),
    ],
)
def test_who_learns(order: str, options: dict[str, object], learns: bool) -> None:
    scheduler = Scheduler([], policies(order=order, order_options=options))
    assert scheduler.learns_services is learns
    assert scheduler.learn_services(past_of(*[5.0] * 500), NOW) is learns
