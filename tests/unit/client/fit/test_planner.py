"""What is kept, offloaded and recomputed: byte counts are exact, budgets hold where possible, and nothing is
done unnecessarily."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.client.fit.liveness import Liveness, ModuleCost, Rates, StorageLifetime
from laneway.client.fit.planner import Plan, Technique, plan

from tests.support.property_examples import examples

RATES = Rates(copy_bytes_per_second=1000.0, copy_overhead_seconds=0.001)


def layers(*sizes: int, beside: int = 10, modules: tuple[ModuleCost, ...] = ()) -> Liveness:
    """A chain of layers: each saves one storage, which the next layer releases; they are read in reverse."""
    count = len(sizes)
    storages = tuple(
        StorageLifetime(size, released_at=min(i + 2, count), needed_at=2 * count - 1 - i)
        for i, size in enumerate(sizes)
    )
    return Liveness((beside,) * (2 * count + 1), storages, modules)


def held(table: Liveness, made: Plan) -> list[int]:
    """Returns what is held in each segment under a plan, computed storage by storage."""
    trigger = {index: start for start, indices in made.prefetch_after.items() for index in indices}
    covered = {s for m in made.recomputed for s in table.modules[m].storages}
    levels = []
    for segment, recent_peak in enumerate(table.peaks_bytes):
        level = recent_peak
        for index, storage in enumerate(table.storages):
            if index in covered:
                continue
            first = storage.released_at
            if index in made.offloaded:
                if index not in trigger:
                    continue
                first = max(first, table.storages[trigger[index]].needed_at + 1)
            level += storage.size_bytes if first <= segment <= storage.needed_at else 0
        for module in (table.modules[m] for m in made.recomputed):
            again = min(table.storages[s].needed_at for s in module.storages) + 1
            level += module.working_bytes if segment == again else 0
            first = min(table.storages[s].released_at for s in module.storages)
            level += module.kept_bytes if first <= segment < again else 0
            level += sum(
                table.storages[s].size_bytes
                for s in module.storages
                if again <= segment <= table.storages[s].needed_at
            )
        levels.append(level)
    return levels


def kept_all(table: Liveness) -> int:
    return plan(table, 1 << 60, RATES).peak_bytes


def test_nothing_is_offloaded_if_everything_fits() -> None:
    table = layers(100, 100, 100)
    made = plan(table, 310, RATES)
    assert (made.offloaded, made.recomputed, made.peak_bytes, made.extra_seconds) == (
        frozenset(),
        frozenset(),
        310,
        0,
    )


def test_the_first_of_equals_is_offloaded_because_it_is_needed_last() -> None:
    made = plan(layers(100, 100, 100, 100), 310, RATES)
    assert made.offloaded == {0}
    assert made.peak_bytes == 310


def test_one_large_storage_is_preferred_to_many_small_ones() -> None:
    made = plan(layers(10, 10, 10, 10, 50, 10), 70, RATES)
    assert made.offloaded == {4}


def test_unnecessary_choices_are_undone() -> None:
    made = plan(layers(60, 100), 90, RATES)
    assert made.offloaded == {1}, "the larger one is cheaper by the byte, and alone is enough"


def test_a_storage_held_by_others_until_it_is_read_is_not_offloaded() -> None:
    table = Liveness((10, 10, 10), (StorageLifetime(100, released_at=2, needed_at=1),))
    assert not plan(table, 5, RATES).offloaded


def test_prefetches_start_as_early_as_the_budget_allows() -> None:
    table = layers(100, 100, 100, 100, 100)
    made = plan(table, 310, RATES, lookahead=2)
    assert made.offloaded == {0, 1}
    assert made.prefetch_after == {3: (1,), 2: (0,)}
    assert max(held(table, made)) == 310


def test_without_free_memory_nothing_is_prefetched() -> None:
    made = plan(layers(100, 100, 100), 10, RATES)
    assert made.offloaded == {0, 1, 2}
    assert not made.prefetch_after
    assert made.peak_bytes == 10


@pytest.mark.parametrize(
    ("forward_seconds", "technique", "recomputed"),
    [
        (0.1, Technique.BOTH, {0}),
        (0.9, Technique.BOTH, set()),
        (0.9, Technique.RECOMPUTE, {0}),
        (0.1, Technique.OFFLOAD, set()),
    ],
)
def test_a_module_is_recomputed_if_cheaper_or_requested(
    forward_seconds: float, technique: Technique, recomputed: set[int]
) -> None:
    block = ModuleCost("block", forward_seconds, working_bytes=20, storages=(0, 1))
    table = layers(100, 100, 100, beside=100, modules=(block,))
    made = plan(table, 330, RATES, technique)
    assert made.recomputed == recomputed
    assert bool(made.offloaded) is not bool(recomputed)
    assert max(held(table, made)) == made.peak_bytes <= 330


def test_a_module_whose_inputs_would_have_to_be_kept_is_not_recomputed() -> None:
    block = ModuleCost("activation", 0.0, working_bytes=0, storages=(0,), kept_bytes=100)
    assert not plan(layers(100, 100, modules=(block,)), 110, RATES, Technique.RECOMPUTE).recomputed


def test_no_module_is_recomputed_inside_another() -> None:
    table = layers(
        100,
        100,
        100,
        100,
        modules=(
            ModuleCost("outer", 0.01, 0, (0, 1, 2)),
            ModuleCost("outer.inner", 0.001, 0, (0, 1), enclosing=0),
        ),
    )
    made = plan(table, 110, RATES, Technique.RECOMPUTE)
    assert len(made.recomputed) <= 1


def test_a_network_is_recomputed_by_its_parts_not_as_a_whole() -> None:
    """Recomputing the whole network costs least for each byte that it saves, but brings all storages back at
    once."""
    parts = (
        ModuleCost("network", 0.3, 0, tuple(range(1, 6))),
        ModuleCost("first", 0.2, 0, (1, 2), enclosing=0),
        ModuleCost("second", 0.2, 0, (4, 5), enclosing=0),
    )
    made = plan(layers(*[100] * 6, modules=parts), 410, RATES, Technique.RECOMPUTE)
    assert made.recomputed == {1}
    assert not made.offloaded


def test_offloading_replaces_recomputing_that_would_not_fit() -> None:
    block = ModuleCost("block", 0.0, working_bytes=500, storages=(0, 1))
    made = plan(layers(100, 100, 100, modules=(block,)), 110, RATES)
    assert not made.recomputed
    assert made.peak_bytes <= 110


def test_overlapped_copies_cost_only_what_the_computation_does_not_hide() -> None:
    rates = Rates(100.0, 0.0, overlaps=True)
    assert rates.move_seconds(StorageLifetime(100, 0, 1, hidden_seconds=1.5)) == pytest.approx(0.5)
    assert rates.move_seconds(StorageLifetime(100, 0, 1, hidden_seconds=5.0)) == 0


@st.composite
def tables(draw: st.DrawFn) -> Liveness:
    segments = draw(st.integers(2, 16))
    peaks = draw(st.lists(st.integers(0, 50), min_size=segments, max_size=segments))
    place = st.integers(0, segments - 1)
    storages = tuple(
        StorageLifetime(size, first, last)
        for size, first, last in draw(st.lists(st.tuples(st.integers(0, 90), place, place), max_size=9))
    )
    names = iter("abcdefgh")
    return Liveness(tuple(peaks), storages, tuple(_modules(draw, len(storages), names)))


def _modules(draw: st.DrawFn, count: int, names: Iterator[str]) -> Iterator[ModuleCost]:
    """Modules side by side, some with one inside."""
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=4)))
    index = 0
    for first, last in itertools.pairwise(cuts):
        inside = tuple(range(first, last))
        if not inside:
            continue
        seconds = st.floats(0, 0.3)
        kept = draw(st.integers(0, 60))
        yield ModuleCost(next(names), draw(seconds), draw(st.integers(0, 40)), inside, kept_bytes=kept)
        if len(inside) > 1:
            yield ModuleCost(
                next(names), draw(seconds), draw(st.integers(0, 40)), inside[1:], enclosing=index
            )
            index += 1
        index += 1


@settings(max_examples=examples(150))
@given(tables(), st.integers(0, 500), st.sampled_from(Technique), st.integers(0, 4))
def test_a_plans_bytes_are_exact_and_within_the_budget_if_possible(
    table: Liveness, budget: int, technique: Technique, lookahead: int
) -> None:
    made = plan(table, budget, RATES, technique, lookahead)
    peak = max(held(table, made))
    assert peak <= max(budget, made.peak_bytes)
    if not made.prefetch_after:
        assert peak == made.peak_bytes
    if max(table.peaks_bytes) <= budget:
        assert peak <= budget, "with all of it away it would fit"
    if kept_all(table) <= budget:
        assert not made.offloaded
        assert not made.recomputed
    assert made.extra_seconds <= sum(map(RATES.move_seconds, table.storages)) + sum(
        table.modules[m].forward_seconds for m in made.recomputed
    )
    covered = [s for m in made.recomputed for s in table.modules[m].storages]
    assert len(covered) == len(set(covered)), "no module inside another"
    assert made.offloaded.isdisjoint(covered)


@settings(max_examples=examples(60))
@given(st.lists(st.integers(1, 60), min_size=1, max_size=7), st.integers(10, 300))
def test_a_plan_is_close_to_the_optimum(sizes: list[int], budget: int) -> None:
    table = layers(*sizes)
    made = plan(table, budget, RATES, Technique.OFFLOAD)
    best = min(
        sum(RATES.move_seconds(table.storages[i]) for i in away)
        for away in map(frozenset, _subsets(len(sizes)))
        if max(held(table, Plan(away, frozenset(), {}, 0, 0.0))) <= budget
    )
    assert made.extra_seconds <= 2 * best + RATES.move_seconds(table.storages[sizes.index(max(sizes))])


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    return itertools.chain.from_iterable(
        itertools.combinations(range(count), length) for length in range(count + 1)
    )
