"""What is kept, moved and computed again: the bytes are exact, the budget holds where it can, and nothing is done in vain."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.client.fit.liveness import Liveness, ModuleCost, Rates, SavedStorage
from laneway.client.fit.planner import Means, Plan, plan

RATES = Rates(copy_bytes_per_second=1000.0, copy_overhead_seconds=0.001)


def layers(*sizes: int, beside: int = 10, modules: tuple[ModuleCost, ...] = ()) -> Liveness:
    """A chain of layers: each keeps one storage, which the next one lets go of; they are read the other way round."""
    count = len(sizes)
    storages = tuple(
        SavedStorage(size, gone_at=min(i + 2, count), needed_at=2 * count - 1 - i)
        for i, size in enumerate(sizes)
    )
    return Liveness((beside,) * (2 * count + 1), storages, modules)


def held(table: Liveness, made: Plan) -> list[int]:
    """What is held in each segment under a plan, told storage by storage."""
    trigger = {index: start for start, indices in made.fetch_after.items() for index in indices}
    covered = {s for m in made.recomputed for s in table.modules[m].storages}
    levels = []
    for segment, crest in enumerate(table.crests_bytes):
        level = crest
        for index, storage in enumerate(table.storages):
            if index in covered:
                continue
            first = storage.gone_at
            if index in made.away:
                if index not in trigger:
                    continue
                first = max(first, table.storages[trigger[index]].needed_at + 1)
            level += storage.size_bytes if first <= segment <= storage.needed_at else 0
        for module in (table.modules[m] for m in made.recomputed):
            again = min(table.storages[s].needed_at for s in module.storages) + 1
            level += module.working_bytes if segment == again else 0
            first = min(table.storages[s].gone_at for s in module.storages)
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


def test_nothing_is_moved_that_fits() -> None:
    table = layers(100, 100, 100)
    made = plan(table, 310, RATES)
    assert (made.away, made.recomputed, made.peak_bytes, made.extra_seconds) == (
        frozenset(),
        frozenset(),
        310,
        0,
    )


def test_the_first_of_equals_goes_because_it_is_needed_last() -> None:
    made = plan(layers(100, 100, 100, 100), 310, RATES)
    assert made.away == {0}
    assert made.peak_bytes == 310


def test_one_that_is_large_enough_goes_rather_than_many_small_ones() -> None:
    made = plan(layers(10, 10, 10, 10, 50, 10), 70, RATES)
    assert made.away == {4}


def test_what_turns_out_unnecessary_is_kept() -> None:
    made = plan(layers(60, 100), 90, RATES)
    assert made.away == {1}, "the larger one is cheaper by the byte, and alone is enough"


def test_a_storage_that_others_hold_until_it_is_read_is_not_moved() -> None:
    table = Liveness((10, 10, 10), (SavedStorage(100, gone_at=2, needed_at=1),))
    assert not plan(table, 5, RATES).away


def test_copies_start_ahead_as_far_as_the_budget_lets_them() -> None:
    table = layers(100, 100, 100, 100, 100)
    made = plan(table, 310, RATES, lookahead=2)
    assert made.away == {0, 1}
    assert made.fetch_after == {3: (1,), 2: (0,)}
    assert max(held(table, made)) == 310


def test_copies_do_not_start_ahead_where_there_is_no_room() -> None:
    made = plan(layers(100, 100, 100), 10, RATES)
    assert made.away == {0, 1, 2}
    assert not made.fetch_after
    assert made.peak_bytes == 10


@pytest.mark.parametrize(
    ("forward_seconds", "means", "recomputed"),
    [
        (0.1, Means.BOTH, {0}),
        (0.9, Means.BOTH, set()),
        (0.9, Means.RECOMPUTE, {0}),
        (0.1, Means.OFFLOAD, set()),
    ],
)
def test_a_module_is_computed_again_where_that_is_cheaper_or_asked_for(
    forward_seconds: float, means: Means, recomputed: set[int]
) -> None:
    block = ModuleCost("block", forward_seconds, working_bytes=20, storages=(0, 1))
    table = layers(100, 100, 100, beside=100, modules=(block,))
    made = plan(table, 330, RATES, means)
    assert made.recomputed == recomputed
    assert bool(made.away) is not bool(recomputed)
    assert max(held(table, made)) == made.peak_bytes <= 330


def test_a_module_whose_inputs_would_have_to_be_kept_instead_is_not_computed_again() -> None:
    block = ModuleCost("activation", 0.0, working_bytes=0, storages=(0,), kept_bytes=100)
    assert not plan(layers(100, 100, modules=(block,)), 110, RATES, Means.RECOMPUTE).recomputed


def test_no_module_is_computed_again_inside_another_one() -> None:
    table = layers(
        100,
        100,
        100,
        100,
        modules=(
            ModuleCost("outer", 0.01, 0, (0, 1, 2)),
            ModuleCost("outer.inner", 0.001, 0, (0, 1), within=0),
        ),
    )
    made = plan(table, 110, RATES, Means.RECOMPUTE)
    assert len(made.recomputed) <= 1


def test_a_whole_network_is_not_computed_again_at_once_but_its_parts_one_after_the_other() -> None:
    """The whole is the cheapest by the byte, as no storage between its parts is kept; and has all of it back at the same moment."""
    parts = (
        ModuleCost("network", 0.3, 0, tuple(range(1, 6))),
        ModuleCost("first", 0.2, 0, (1, 2), within=0),
        ModuleCost("second", 0.2, 0, (4, 5), within=0),
    )
    made = plan(layers(*[100] * 6, modules=parts), 410, RATES, Means.RECOMPUTE)
    assert made.recomputed == {1}
    assert not made.away


def test_recomputing_that_would_not_fit_gives_way_to_moving() -> None:
    block = ModuleCost("block", 0.0, working_bytes=500, storages=(0, 1))
    made = plan(layers(100, 100, 100, modules=(block,)), 110, RATES)
    assert not made.recomputed
    assert made.peak_bytes <= 110


def test_overlapped_copies_cost_what_the_computation_does_not_hide() -> None:
    rates = Rates(100.0, 0.0, overlaps=True)
    assert rates.move_seconds(SavedStorage(100, 0, 1, hidden_seconds=1.5)) == pytest.approx(0.5)
    assert rates.move_seconds(SavedStorage(100, 0, 1, hidden_seconds=5.0)) == 0


@st.composite
def tables(draw: st.DrawFn) -> Liveness:
    segments = draw(st.integers(2, 16))
    crests = draw(st.lists(st.integers(0, 50), min_size=segments, max_size=segments))
    place = st.integers(0, segments - 1)
    storages = tuple(
        SavedStorage(size, first, last)
        for size, first, last in draw(st.lists(st.tuples(st.integers(0, 90), place, place), max_size=9))
    )
    names = iter("abcdefgh")
    return Liveness(tuple(crests), storages, tuple(_modules(draw, len(storages), names)))


def _modules(draw: st.DrawFn, count: int, names: Iterator[str]) -> Iterator[ModuleCost]:
    """Modules side by side, each perhaps with one in it."""
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
            yield ModuleCost(next(names), draw(seconds), draw(st.integers(0, 40)), inside[1:], within=index)
            index += 1
        index += 1


@settings(max_examples=150)
@given(tables(), st.integers(0, 500), st.sampled_from(Means), st.integers(0, 4))
def test_a_plan_is_exact_about_bytes_and_keeps_within_the_budget_where_that_can_be(
    table: Liveness, budget: int, means: Means, lookahead: int
) -> None:
    made = plan(table, budget, RATES, means, lookahead)
    peak = max(held(table, made))
    assert peak <= max(budget, made.peak_bytes)
    if not made.fetch_after:
        assert peak == made.peak_bytes
    if max(table.crests_bytes) <= budget:
        assert peak <= budget, "with all of it away it would fit"
    if kept_all(table) <= budget:
        assert not made.away
        assert not made.recomputed
    assert made.extra_seconds <= sum(map(RATES.move_seconds, table.storages)) + sum(
        table.modules[m].forward_seconds for m in made.recomputed
    )
    covered = [s for m in made.recomputed for s in table.modules[m].storages]
    assert len(covered) == len(set(covered)), "no module inside another"
    assert made.away.isdisjoint(covered)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=7), st.integers(10, 300))
def test_a_plan_is_not_far_from_the_best_of_all(sizes: list[int], budget: int) -> None:
    table = layers(*sizes)
    made = plan(table, budget, RATES, Means.OFFLOAD)
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
