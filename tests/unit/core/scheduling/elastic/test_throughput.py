"""The time of a step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling.model.throughput import ThroughputModel

MODEL = ThroughputModel(0.1, 0.01, 0.5, 0.02, 0.2, 0.01, 1.0)


@pytest.mark.parametrize(
    ("nodes", "replicas", "seconds"),
    [(1, 1, 0.0), (1, 2, 0.2), (1, 4, 0.22), (2, 2, 0.5), (2, 6, 0.58)],
    ids=["alone", "two on a node", "four on a node", "two on two nodes", "six on two nodes"],
)
def test_the_network_takes_time_by_where_replicas_are_and_how_many(
    nodes: int, replicas: int, seconds: float
) -> None:
    assert MODEL.network_seconds(nodes, replicas) == pytest.approx(seconds)


def test_with_gamma_1_the_network_comes_after_the_pass() -> None:
    assert MODEL.step_seconds(10.0, 0.0, 0.5) == pytest.approx(0.2 + 0.5)


def test_with_a_large_gamma_the_shorter_hides_behind_the_longer() -> None:
    overlapping = ThroughputModel(0.1, 0.01, 0.5, gamma=10.0)
    assert overlapping.step_seconds(10.0, 0.0, 0.5) == pytest.approx(0.5, rel=1e-3)


def test_accumulated_passes_do_not_wait_for_the_network() -> None:
    assert MODEL.step_seconds(10.0, 3.0, 0.5) == pytest.approx(3 * 0.2 + 0.2 + 0.5)


@given(st.floats(1.0, 10.0), st.floats(1.0, 1e4), st.floats(0.0, 10.0))
def test_a_step_takes_between_the_longer_of_its_parts_and_their_sum(
    gamma: float, batch: float, network_seconds: float
) -> None:
    model = ThroughputModel(0.1, 0.01, gamma=gamma)
    pass_seconds = model.pass_seconds(batch)
    step_seconds = model.step_seconds(batch, 0.0, network_seconds)
    assert step_seconds >= max(pass_seconds, network_seconds) * (1 - 1e-9)
    assert step_seconds <= (pass_seconds + network_seconds) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"compute_seconds": -1.0, "compute_seconds_per_sample": 1.0},
            "compute_seconds is -1.0: write 0 or more",
        ),
        ({"compute_seconds": 0.0, "compute_seconds_per_sample": 0.0}, "a step takes time"),
        ({"compute_seconds": 1.0, "compute_seconds_per_sample": 0.0, "gamma": 11.0}, "write 1 to 10"),
    ],
)
def test_impossible_parameters_are_refused(fields: dict[str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ThroughputModel(**fields)
