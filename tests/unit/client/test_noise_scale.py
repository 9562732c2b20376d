"""The gradient noise scale, from the moments of single steps: a number of samples or unknown, whatever the gradients are."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from laneway.client.goodput.batch_plan import plan_batch
from laneway.client.goodput.gradient_noise import LEAST_MEASUREMENTS, MOST_SAMPLES, NoiseScale
from laneway.client.goodput.learning_rate import MEASURED_EVERY, AdaScale

ANY = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


def noise_of(*moments: tuple[float, float], samples: int = 8) -> float | None:
    noise = NoiseScale()
    for square, variance in moments:
        noise.add(square, variance, samples)
    return noise.samples


@given(st.lists(st.tuples(ANY, ANY), min_size=LEAST_MEASUREMENTS, max_size=40), st.integers(0, 2**20))
@example([(-1e-320, 1e-320)] * LEAST_MEASUREMENTS, 1)
@example([(0.0, 5e-324)] * LEAST_MEASUREMENTS, 1)
@example([(1.0, sys.float_info.max)] * LEAST_MEASUREMENTS, 2**20)
@example([(0.0, 0.0)] * LEAST_MEASUREMENTS + [(0.0, 1e307), (0.0, -1e307)], 2**20)
def test_the_noise_scale_is_never_out_of_range(moments: list[tuple[float, float]], samples: int) -> None:
    found = noise_of(*moments, samples=samples)
    assert found is None or 0 <= found <= MOST_SAMPLES


def test_it_is_the_variance_of_a_sample_by_the_square_of_the_mean() -> None:
    assert noise_of(*[(2.0, 3.0)] * LEAST_MEASUREMENTS, samples=8) == pytest.approx(12.0)
    assert noise_of(*[(2.0, 3.0)] * (LEAST_MEASUREMENTS - 1)) is None
    assert noise_of(*[(-2.0, 3.0)] * LEAST_MEASUREMENTS) == MOST_SAMPLES, "nothing but noise"
    assert noise_of(*[(2.0, 0.0)] * LEAST_MEASUREMENTS) == 0.0, "no noise"


def test_nothing_is_known_of_gradients_that_are_zero_or_no_numbers() -> None:
    assert noise_of(*[(0.0, 0.0)] * LEAST_MEASUREMENTS) is None
    assert noise_of(*[(math.nan, math.inf)] * LEAST_MEASUREMENTS) is None
    assert noise_of(*[(2.0, 3.0), (math.nan, 1.0)] * LEAST_MEASUREMENTS) == pytest.approx(12.0)


class Pair(list[float]):
    """Has what is used of a tensor."""

    def __truediv__(self, divisor: int) -> Pair:
        return Pair([each / divisor for each in self])

    def tolist(self) -> list[float]:
        return list(self)


def test_a_rank_without_gradients_takes_part_in_the_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for it."""
    reduced: list[Any] = []
    distributed = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        all_reduce=reduced.append,
        get_world_size=lambda: 2,
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    torch = SimpleNamespace(
        cuda=SimpleNamespace(is_initialized=lambda: False), zeros=lambda count, device: Pair([0.0] * count)
    )
    rule = AdaScale(torch, plan_batch(8, 2, 64))
    for _ in range(2 * MEASURED_EVERY):
        rule.observe([])
    assert reduced == [[0.0, 0.0]] * 2
    assert rule.gain == 1.0
