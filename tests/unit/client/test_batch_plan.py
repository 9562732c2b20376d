"""The batch of an elastic job: how it is divided, and how the learning rate follows it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.client.goodput.batch_plan import plan_batch
from laneway.client.goodput.learning_rate import adascale_gain, rule_for


@pytest.mark.parametrize(
    ("total", "workers", "max_total", "max_local", "local", "passes"),
    [
        pytest.param(256, 4, None, None, 64, 1, id="the same batch"),
        pytest.param(256, 3, None, None, 85, 1, id="the nearest that divides"),
        pytest.param(255, 2, None, None, 128, 1, id="the nearest may be above"),
        pytest.param(256, 1, None, 100, 85, 3, id="several passes, all alike"),
        pytest.param(256, 2, 2048, None, 256, 1, id="grows with the workers"),
        pytest.param(256, 16, 2048, None, 128, 1, id="up to its maximum"),
        pytest.param(256, 3, 600, None, 200, 1, id="never above it"),
        pytest.param(4, 4, None, None, 1, 1, id="a sample for each worker"),
    ],
)
def test_a_batch_is_divided(
    total: int, workers: int, max_total: int | None, max_local: int | None, local: int, passes: int
) -> None:
    plan = plan_batch(total, workers, max_total, max_local)
    assert (plan.local, plan.passes) == (local, passes)


@given(
    total=st.integers(1, 5000),
    workers=st.integers(1, 64),
    growth=st.none() | st.integers(0, 10_000),
    max_local=st.none() | st.integers(1, 500),
)
def test_a_batch_stays_within_its_limits(
    total: int, workers: int, growth: int | None, max_local: int | None
) -> None:
    max_total = None if growth is None else total + growth
    wanted = total if max_total is None else min(max_total, total * workers)
    if wanted < workers:
        with pytest.raises(ValueError, match="cannot share"):
            plan_batch(total, workers, max_total, max_local)
        return
    plan = plan_batch(total, workers, max_total, max_local)
    assert plan.local >= 1
    assert max_local is None or plan.local <= max_local
    step = workers * plan.passes
    assert plan.total == step * plan.local
    if plan.local > 1:
        assert abs(plan.total - wanted) <= step
    if max_total is not None and plan.local > 1:
        assert plan.total <= max_total


@pytest.mark.parametrize(
    ("workers", "max_total", "max_local", "chosen", "local", "passes"),
    [
        pytest.param(2, 2048, 512, 700, 350, 1, id="the chosen batch"),
        pytest.param(2, 2048, 256, 2048, 256, 4, id="in several passes"),
        pytest.param(2, 1024, 256, 4096, 256, 2, id="never above what the script allows"),
        pytest.param(2, 2048, None, 2048, 256, 1, id="a script without max_local may not know of passes"),
        pytest.param(4, 2048, None, 512, 128, 1, id="smaller than by the workers alone"),
        pytest.param(2, 2048, 256, 8, 128, 1, id="never below the initial batch"),
        pytest.param(2, None, 256, 2048, 128, 1, id="a script that keeps its batch"),
    ],
)
def test_the_operators_choice_is_taken_within_the_scripts_limits(
    workers: int, max_total: int | None, max_local: int | None, chosen: int, local: int, passes: int
) -> None:
    plan = plan_batch(256, workers, max_total, max_local, chosen)
    assert (plan.local, plan.passes) == (local, passes)


@given(
    total=st.integers(1, 5000),
    workers=st.integers(1, 64),
    growth=st.integers(0, 100_000),
    max_local=st.none() | st.integers(1, 500),
    chosen=st.integers(1, 10**15),
)
def test_no_choice_exceeds_the_scripts_limits(
    total: int, workers: int, growth: int, max_local: int | None, chosen: int
) -> None:
    if total + growth < workers or (max_local is None and total * workers < workers):
        return
    plan = plan_batch(total, workers, total + growth, max_local, chosen)
    assert 1 <= plan.local <= (max_local or total)
    assert plan.passes == 1 or max_local is not None
    assert plan.total <= total + growth or plan.local == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((8, 16), r"batch_size\(8\): 16 workers cannot share 8 samples. Raise the batch to 16 or more"),
        ((0, 1), r"batch_size\(total=0\): write 1 or more"),
        ((64, 2, 32), r"batch_size\(64, max_total=32\): write 64 or more"),
        ((64, 2, None, 0), r"batch_size\(max_local=0\): write 1 or more"),
    ],
)
def test_a_wrong_batch_is_refused(arguments: tuple[int | None, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_batch(*arguments)  # type: ignore[arg-type]


@given(
    square=st.floats(-10, 1e6, allow_subnormal=False),
    variance=st.floats(-10, 1e6, allow_subnormal=False),
    scale=st.floats(1, 64),
)
def test_adascales_gain_lies_between_one_and_the_ratio_of_the_batches(
    square: float, variance: float, scale: float
) -> None:
    assert 1 - 1e-9 <= adascale_gain(square, variance, scale) <= scale + 1e-9


def test_adascales_gain_by_the_noise() -> None:
    assert adascale_gain(0.0, 1.0, 8.0) == 8.0, "nothing but noise: each sample counts"
    assert adascale_gain(1.0, 0.0, 8.0) == 1.0, "no noise: a larger batch shows nothing new"
    assert adascale_gain(1.0, 1.0, 3.0) == pytest.approx((3 + 1) / (1 + 1))
    assert adascale_gain(1.0, 1.0, 0.5) == 0.5, "a smaller batch than the initial one"


def test_the_rule_follows_the_kind_of_optimizer() -> None:
    sgd, adam = type("SGD", (), {}), type("AdamW", (), {})
    assert rule_for(type("MySGD", (sgd,), {})()) == "adascale"
    assert rule_for(adam()) == "square-root"
