"""Efficiency, the choice of a batch size, and goodput."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from laneway.scheduling.model.efficiency import Efficiency
from laneway.scheduling.model.goodput import BatchLimits, GoodputModel, ReplicaLayout, consolidated, goodputs
from laneway.scheduling.model.throughput import ThroughputModel

from tests.support.property_examples import examples
from tests.unit.core.scheduling.elastic.builders import TRAINED, models

quick = settings(max_examples=examples(60))
SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(
    lambda drawn: ReplicaLayout(drawn[0], drawn[0] * drawn[1])
)


def test_efficiency_is_that_of_the_noise_scale() -> None:
    efficiency = Efficiency.from_gradients(100, grad_sqr=2.0, grad_var=6.0)
    assert efficiency.noise_scale == pytest.approx(300.0)
    assert efficiency.at(100.0) == pytest.approx(1.0)
    assert efficiency.at(500.0) == pytest.approx(400 / 800)


def test_gradients_without_noise_make_a_larger_batch_a_waste() -> None:
    assert Efficiency.from_gradients(100, 2.0, 0.0).at(200.0) == pytest.approx(0.5)


def test_gradients_of_nothing_but_noise_make_a_larger_batch_as_good() -> None:
    assert Efficiency.from_gradients(100, -1.0, 2.0).at(200.0) == pytest.approx(1.0)


@quick
@given(models(), st.floats(1.0, 100.0))
def test_efficiency_falls_with_the_batch_and_never_below_its_inverse(
    model: GoodputModel, times: float
) -> None:
    initial = model.efficiency.initial_batch
    at = model.efficiency.at(times * initial)
    assert model.efficiency.at((times + 1) * initial) <= at <= 1 + 1e-9
    assert at * times >= 1 - 1e-9


@quick
@given(models(), SHAPES)
def test_the_batch_is_within_its_limits(model: GoodputModel, shape: ReplicaLayout) -> None:
    best = model.best(shape)
    limits = model.limits
    if best.goodput == 0:
        assert shape.replicas * limits.min_local_batch > limits.max_batch
        return
    assert limits.min_local_batch <= best.local_batch <= limits.max_local_batch
    assert best.batch(shape.replicas) <= limits.max_batch
    assert best.goodput == pytest.approx(
        model.at(shape.replicas, best.local_batch, best.accumulated_passes, nodes=shape.nodes)
    )


@quick
@given(models(), SHAPES)
def test_no_batch_size_is_much_better_than_the_one_chosen(model: GoodputModel, shape: ReplicaLayout) -> None:
    best = model.best(shape).goodput
    limits, replicas = model.limits, shape.replicas
    for local in range(limits.min_local_batch, limits.max_local_batch + 1):
        batch = local * replicas
        if replicas > 1 and model.efficiency.initial_batch <= batch <= limits.max_batch:
            assert model.at(replicas, local, nodes=shape.nodes) <= best * 1.05


def test_the_most_that_one_pass_holds_is_compared_as_well() -> None:
    """Goodput rises up to it, and falls beyond, where a step takes two passes: a geometric step below it would lose 5 %."""
    model = GoodputModel(ThroughputModel(1.0, 1 / 512), Efficiency(12, 1558.0), BatchLimits(396, 36))
    best = model.best(ReplicaLayout(2, 4))
    assert (best.local_batch, best.accumulated_passes) == (36, 0)


@quick
@given(models(), st.integers(2, 4))
def test_more_nodes_are_never_faster(model: GoodputModel, nodes: int) -> None:
    assert model.best(ReplicaLayout(nodes, 4)).goodput <= model.best(ReplicaLayout(1, 4)).goodput * (1 + 1e-9)


@quick
@given(models(), SHAPES)
def test_goodput_rises_with_the_noise_scale(model: GoodputModel, shape: ReplicaLayout) -> None:
    noisier = replace(
        model, efficiency=replace(model.efficiency, noise_scale=2 * model.efficiency.noise_scale + 1)
    )
    best = model.best(shape)
    assume(
        best.batch(shape.replicas) >= model.efficiency.initial_batch
    )  # smaller where replicas do not divide it
    assert noisier.best(shape).goodput >= best.goodput * (1 - 1e-9)


def test_a_batch_that_memory_does_not_hold_is_accumulated() -> None:
    noisy = GoodputModel(
        ThroughputModel(0.01, 0.001, gamma=1.0, intranode_seconds=1.0),
        Efficiency(32, 1e6),
        BatchLimits(1024, 64),
    )
    best = noisy.best(ReplicaLayout(1, 2))
    assert best.local_batch <= 64
    assert best.accumulated_passes >= 5
    assert best.batch(2) > 2 * 64 * 5


def test_a_single_replica_beyond_the_initial_batch_takes_two_passes_at_least() -> None:
    noisy = GoodputModel(ThroughputModel(1.0, 0.001), Efficiency(32, 1e6), BatchLimits(256, 256))
    best = noisy.best(ReplicaLayout(1, 1))
    assert best.batch(1) > 32
    assert best.accumulated_passes == 1


def test_too_many_replicas_for_the_largest_batch_train_nothing() -> None:
    assert replace(TRAINED, limits=BatchLimits(128, 64, 32)).best(ReplicaLayout(2, 8)).goodput == 0.0


def test_the_table_is_that_of_the_fewest_nodes() -> None:
    table = goodputs(TRAINED, 10, 4)
    assert table[0] == 0.0
    assert [table[replicas] for replicas in (1, 4, 5, 10)] == [
        TRAINED.best(shape).goodput
        for shape in (ReplicaLayout(1, 1), ReplicaLayout(1, 4), ReplicaLayout(2, 5), ReplicaLayout(3, 10))
    ]
    assert consolidated(9, 4) == ReplicaLayout(3, 9)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: BatchLimits(8, 4, 5), "min_local_batch is 5"),
        (lambda: BatchLimits(1, 4, 2), "max_batch is 1: write 2"),
        (lambda: replace(TRAINED, limits=BatchLimits(64, 64)), "max_batch is 64: write 128"),
        (lambda: Efficiency(0, 1.0), "initial_batch is 0"),
        (lambda: Efficiency(1, float("nan")), "noise_scale is nan"),
    ],
)
def test_impossible_limits_are_refused(make: object, says: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=says):
        make()
