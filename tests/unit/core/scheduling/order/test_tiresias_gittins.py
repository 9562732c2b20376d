"""2D-Gittins: the index of a distribution, and the order that it makes."""

from __future__ import annotations

from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling.order.gittins_index import gittins_table, log_normal_samples
from laneway.scheduling.order.tiresias_gittins import TiresiasGittins

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import a_job
from tests.unit.core.scheduling.order.ranking import order_by, preempts


def by_definition(samples: list[float], quantum: float, attained: float) -> float:
    """P(S - a <= D | S > a) / E[min(S - a, D) | S > a], term by term."""
    left = [sample - attained for sample in samples if sample > attained]
    return mean(rest <= quantum for rest in left) / mean(min(rest, quantum) for rest in left)


@settings(max_examples=examples(50))
@given(
    st.lists(st.integers(1, 500).map(float), min_size=1, max_size=30),
    st.integers(1, 400),
    st.integers(0, 600),
)
def test_the_table_is_the_index_of_the_last_sample_that_was_outrun(
    samples: list[float], quantum: int, attained: int
) -> None:
    index = gittins_table(tuple(samples), float(quantum)).index(attained)
    if attained >= max(samples):
        assert index == 0
    else:
        outrun = max((sample for sample in samples if sample <= attained), default=0.0)
        assert index == pytest.approx(by_definition(samples, quantum, outrun))


def test_the_index_of_a_small_distribution() -> None:
    table = gittins_table((10.0, 10.0, 40.0), 20.0)
    assert table.index(0) == pytest.approx(2 / (10 + 10 + 20)), (
        "two of three end, after 10 each; one goes on for 20"
    )
    assert table.index(10) == 0, "nobody ends within the next 20"
    assert gittins_table((10.0, 10.0, 40.0), 30.0).index(10) == pytest.approx(1 / 30)


def test_the_assumed_distribution_has_the_median_and_the_95th_percentile_asked_for() -> None:
    samples = log_normal_samples(600.0, 36_000.0)
    assert list(samples) == sorted(samples)
    assert samples[499] < 600 < samples[500]
    assert samples[949] < 36_000 < samples[950]


def test_whoever_is_likely_to_end_soon_goes_first() -> None:
    bimodal = TiresiasGittins(samples_gpu_seconds=(100.0,) * 5 + (3000.0,) * 5, quantum_gpu_seconds=200.0)
    fresh, near_the_end, stuck = a_job("fresh"), a_job("near").served(2950), a_job("stuck").served(150)
    assert order_by(bimodal, stuck, fresh) == ["fresh", "stuck"]
    linear = TiresiasGittins(samples_gpu_seconds=tuple(range(1, 3001)), quantum_gpu_seconds=200.0)
    assert order_by(linear, stuck, fresh, near_the_end) == ["near", "stuck", "fresh"]


def test_queues_come_before_the_index() -> None:
    policy = TiresiasGittins(samples_gpu_seconds=(5000.0, 5001.0, 9000.0), quantum_gpu_seconds=1800.0)
    assert order_by(policy, a_job("about-to-end").served(4999), a_job("new")) == ["new", "about-to-end"]


def test_jobs_of_the_last_queue_can_keep_their_order() -> None:
    """Those of the others are still ordered by the index."""
    options = {
        "samples_gpu_seconds": (100.0,) * 5 + (8000.0,) * 2 + (9000.0,) * 3,
        "quantum_gpu_seconds": 1000.0,
    }
    by_index, kept = TiresiasGittins(**options), TiresiasGittins(**options, last_queue_by_arrival=True)  # type: ignore[arg-type]
    runs, ends_soon = a_job("runs").served(7500).runs_on("n/0"), a_job("ends-soon").served(8500)
    assert order_by(by_index, runs, ends_soon) == ["ends-soon", "runs"]
    assert preempts(by_index, ends_soon, runs)
    assert order_by(kept, runs, ends_soon) == ["runs", "ends-soon"]
    assert not preempts(kept, ends_soon, runs)
    fresh, stuck = a_job("fresh"), a_job("stuck").served(150).runs_on("n/0")
    assert preempts(kept, fresh, stuck)


def test_jobs_of_one_queue_preempt_one_another() -> None:
    policy = TiresiasGittins(learn_after_jobs=0)
    assert preempts(policy, a_job("new"), a_job("old").served(3000).runs_on("n/0"))
    assert not preempts(policy, a_job("old").served(3000), a_job("new").runs_on("n/0"))
    beyond_all_samples = a_job("early").created(1).served(1e9), a_job("late").created(2).served(2e9)
    assert preempts(policy, beyond_all_samples[0], beyond_all_samples[1].runs_on("n/0")), (
        "nobody knows: by arrival"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"samples_gpu_seconds": (1.0, 0.0)}, "above 0"),
        ({"median_gpu_seconds": 50_000.0}, "the median the smaller one"),
        ({"learn_after_jobs": -1}, "write 0 to learn nothing"),
        ({"quantum_gpu_seconds": 0.0}, "quantum_gpu_seconds is 0"),
        ({"thresholds_gpu_seconds": (5.0, 5.0)}, "each larger than the one before"),
    ],
)
def test_wrong_parameters_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TiresiasGittins(**options)  # type: ignore[arg-type]
