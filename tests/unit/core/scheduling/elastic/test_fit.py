"""The throughput model, from step times."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling.elastic import fit as fitting
from laneway.scheduling.elastic.descent import Slope
from laneway.scheduling.elastic.fit import Measurement, fit
from laneway.scheduling.model.throughput import ThroughputModel
from numpy.typing import NDArray

Vector = NDArray[np.float64]
TRUTH = ThroughputModel(0.02, 0.0007, 0.12, 0.004, 0.03, 0.001, 2.0)
SEEN = [(1, 1), (1, 2), (1, 4), (2, 2), (2, 8), (4, 16)]


def measured(truth: ThroughputModel, shapes: list[tuple[int, int]], batches: list[int]) -> list[Measurement]:
    """What a job of this model would show."""
    return [
        Measurement(
            nodes,
            replicas,
            batch,
            truth.step_seconds(float(batch), 0.0, truth.network_seconds(nodes, replicas)),
            truth.pass_seconds(float(batch)),
        )
        for nodes, replicas in shapes
        for batch in batches
    ]


def predicted(model: ThroughputModel, nodes: int, replicas: int, batch: int) -> float:
    return model.step_seconds(float(batch), 0.0, model.network_seconds(nodes, replicas))


def test_known_parameters_are_found_again() -> None:
    found = fit(measured(TRUTH, SEEN, [32, 64, 128, 256]))
    assert found.compute_seconds == pytest.approx(TRUTH.compute_seconds, rel=0.02)
    assert found.compute_seconds_per_sample == pytest.approx(TRUTH.compute_seconds_per_sample, rel=0.02)
    assert found.internode_seconds == pytest.approx(TRUTH.internode_seconds, rel=0.1)
    assert found.intranode_seconds == pytest.approx(TRUTH.intranode_seconds, rel=0.1)


@settings(max_examples=8)
@given(
    st.builds(
        lambda compute, per_sample, intra, growth, worse, gamma: ThroughputModel(
            compute, per_sample, intra * worse, intra * growth * worse, intra, intra * growth, gamma
        ),
        st.floats(1e-3, 1.0),
        st.floats(1e-4, 0.05),
        st.floats(0.01, 1.0),
        st.floats(0.0, 0.2),
        st.floats(1.0, 5.0),
        st.floats(1.0, 4.0),
    )
)
def test_steps_that_were_not_measured_are_foretold(truth: ThroughputModel) -> None:
    found = fit(measured(truth, SEEN, [16, 64, 256]))
    for nodes, replicas, batch in [(1, 3, 100), (2, 4, 32), (3, 12, 200)]:
        assert predicted(found, nodes, replicas, batch) == pytest.approx(
            predicted(truth, nodes, replicas, batch), rel=0.15
        )


def test_noise_of_a_few_percent_does_no_more_harm() -> None:
    noise = random.Random(7)
    noisy = [
        Measurement(
            exact.nodes,
            exact.replicas,
            exact.local_batch,
            exact.step_seconds * noise.uniform(0.95, 1.05),
            (exact.pass_seconds or 0.0) * noise.uniform(0.95, 1.05),
        )
        for exact in measured(TRUTH, SEEN, [32, 64, 128, 256])
    ]
    found = fit(noisy)
    for nodes, replicas in SEEN:
        assert predicted(found, nodes, replicas, 100) == pytest.approx(
            predicted(TRUTH, nodes, replicas, 100), rel=0.06
        )


def test_step_times_alone_are_enough() -> None:
    steps = [
        Measurement(known.nodes, known.replicas, known.local_batch, known.step_seconds)
        for known in measured(TRUTH, SEEN, [32, 64, 128, 256])
    ]
    found = fit(steps)
    assert predicted(found, 3, 12, 100) == pytest.approx(predicted(TRUTH, 3, 12, 100), rel=0.05)


@pytest.mark.parametrize("start", [None, TRUTH], ids=["from nothing", "from a former model"])
def test_what_was_not_tried_scales_perfectly(start: ThroughputModel | None) -> None:
    found = fit(measured(TRUTH, [(1, 1)], [32, 64]), start)
    assert found.network_seconds(1, 8) == 0.0
    assert found.network_seconds(4, 8) == 0.0
    assert found.gamma == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("start", [None, TRUTH], ids=["from nothing", "from a former model"])
def test_two_replicas_say_nothing_of_how_more_would_slow_down(start: ThroughputModel | None) -> None:
    found = fit(measured(TRUTH, [(1, 1), (1, 2)], [32, 64]), start)
    assert found.network_seconds(1, 2) > 0.01
    assert found.network_seconds(1, 8) == found.network_seconds(1, 2)


def test_the_third_replica_shows_how_more_slow_down() -> None:
    truth = ThroughputModel(0.02, 0.0007, 0.2, 0.02, 0.1, 0.01)
    found = fit(measured(truth, [(1, 1), (1, 2), (1, 3)], [32, 64, 128]))
    assert found.network_seconds(1, 3) == pytest.approx(0.11, rel=0.01)
    assert found.intranode_seconds_per_replica == pytest.approx(0.01, rel=0.1)


def test_passes_tell_the_network_from_the_computation() -> None:
    """With two replicas alone, steps do not tell how much of them is the network."""
    truth = ThroughputModel(0.02, 0.0007, intranode_seconds=0.1)
    found = fit(measured(truth, [(1, 2)], [32, 64, 128]))
    assert found.pass_seconds(64.0) == pytest.approx(truth.pass_seconds(64.0), rel=0.01)
    assert found.network_seconds(1, 2) == pytest.approx(0.1, rel=0.02)


def test_a_model_that_began_without_a_network_learns_of_it() -> None:
    known = measured(TRUTH, SEEN, [32, 64, 128, 256])
    found = fit(known, fit(known[:4]))
    assert predicted(found, 3, 12, 100) == pytest.approx(predicted(TRUTH, 3, 12, 100), rel=0.05)


@pytest.fixture
def descents(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Callable[[Vector], Slope], list[Vector], Vector]]:
    """The function of each fit, where it was asked, and what was found."""
    made: list[tuple[Callable[[Vector], Slope], list[Vector], Vector]] = []
    minimise = fitting.minimise

    def recording(function: Callable[[Vector], Slope], start: Vector, *bounds: Any) -> Vector:
        asked: list[Vector] = []

        def slope_at(at: Vector) -> Slope:
            asked.append(at.copy())
            return function(at)

        found = minimise(slope_at, start, *bounds)
        made.append((function, asked, found))
        return found

    monkeypatch.setattr(fitting, "minimise", recording)
    return made


def test_a_former_model_as_start_halves_the_time(
    descents: list[tuple[Callable[[Vector], Slope], list[Vector], Vector]],
) -> None:
    known = measured(TRUTH, SEEN, [32, 64, 128, 256])
    former = fit(known[:-2])
    fit(known)
    fit(known, former)
    _, cold, warm = (len(asked) for _, asked, _ in descents)
    assert warm <= cold / 2


@pytest.mark.parametrize("passes", [True, False], ids=["with passes", "steps alone"])
def test_the_gradient_is_that_of_the_error(
    descents: list[tuple[Callable[[Vector], Slope], list[Vector], Vector]], passes: bool
) -> None:
    known = measured(TRUTH, SEEN, [32, 128])
    fit(known if passes else [replace(each, pass_seconds=None) for each in known])
    slope_at, asked, _ = descents[0]
    moved = np.random.default_rng(3).normal(0.0, 0.3, (4, 7))
    for at in asked[0] + np.abs(moved):
        gradient = slope_at(at).gradient
        for parameter, step in enumerate(1e-6 * np.eye(7)):
            by_difference = (slope_at(at + step).loss - slope_at(at - step).loss) / 2e-6
            assert gradient[parameter] == pytest.approx(by_difference, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("passes", [True, False], ids=["with passes", "steps alone"])
def test_a_model_without_growth_that_foretells_all_has_no_error(
    descents: list[tuple[Callable[[Vector], Slope], list[Vector], Vector]], passes: bool
) -> None:
    truth = ThroughputModel(0.02, 0.0007, 0.12, 0.0, 0.03, 0.0)
    known = measured(truth, SEEN, [32, 128])
    fit(known if passes else [replace(each, pass_seconds=None) for each in known])
    slope_at, _, found = descents[0]
    assert slope_at(found).loss < 2e-4


def test_before_several_nodes_were_tried_they_are_a_little_worse_than_one() -> None:
    found = fit(measured(TRUTH, [(1, 1), (1, 2), (1, 4)], [32, 64]))
    assert found.network_seconds(2, 4) == pytest.approx(1.1 * found.network_seconds(1, 4))


def test_the_first_measurement_leaves_half_of_a_pass_to_the_batch() -> None:
    found = fit(measured(TRUTH, [(1, 1)], [100]))
    assert found.compute_seconds == pytest.approx(TRUTH.pass_seconds(100.0) / 2)
    assert found.pass_seconds(100.0) == pytest.approx(TRUTH.pass_seconds(100.0), rel=0.01)


def test_one_batch_size_leaves_half_of_the_mean_pass_to_the_batch() -> None:
    first, *_, last = measured(TRUTH, [(1, 1), (1, 4)], [100])
    noisy = [replace(first, pass_seconds=0.08), replace(last, pass_seconds=0.12)]
    assert fit(noisy).compute_seconds == pytest.approx(0.05)


@settings(max_examples=10)
@given(st.permutations([None, None, 0.051, 0.0625, 0.0713, 0.0831, 0.0937]))
def test_the_order_of_repeated_measurements_changes_nothing(passes: list[float | None]) -> None:
    known = measured(TRUTH, SEEN, [32])
    repeated = [Measurement(1, 2, 64, 0.1, seconds) for seconds in passes]
    in_order = [
        Measurement(1, 2, 64, 0.1, seconds) for seconds in sorted(passes, key=lambda each: each or 0.0)
    ]
    assert fit([*known, *repeated]) == fit([*in_order, *known])


def test_the_order_of_measurements_changes_nothing() -> None:
    known = measured(TRUTH, SEEN, [32, 128])
    assert fit(known) == fit(known[::-1])


def test_a_former_model_as_start_leads_to_as_good_a_fit() -> None:
    known = measured(TRUTH, SEEN, [32, 64, 128, 256])
    again = fit(known, fit(known[:-6]))
    assert predicted(again, 4, 16, 256) == pytest.approx(predicted(TRUTH, 4, 16, 256), rel=0.02)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ((2, 1, 32, 1.0), "1 replicas on 2 nodes"),
        ((1, 1, 0, 1.0), "local_batch is 0"),
        ((1, 1, 32, 0.0), "step_seconds is 0.0: write a time above 0"),
        ((1, 1, 32, 1.0, float("nan")), "pass_seconds is nan"),
    ],
)
def test_impossible_measurements_are_refused(fields: tuple[float, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Measurement(*fields)  # type: ignore[arg-type]


def test_without_a_measurement_there_is_no_model() -> None:
    with pytest.raises(ValueError, match="there is no measurement"):
        fit([])


def test_a_batch_of_one_sample_is_a_measurement() -> None:
    one = Measurement(1, 1, 1, 0.5, 0.5)
    assert fit([one]).pass_seconds(1.0) == pytest.approx(0.5, rel=1e-3)
