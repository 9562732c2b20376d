"""How much of the time is guaranteed to each job."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling.fairness import contention as module
from laneway.scheduling.fairness.contention import Contention, Group
from laneway.scheduling.gpus.numbering import Pool
from laneway.scheduling.model.gpu_class import GPUClass, class_of

from tests.unit.core.scheduling.builders import a_node

A100 = class_of(a_node("n", 1).gpus[0])
H100 = class_of(a_node("n", 1, model="H100").gpus[0])


def contention(capacity: dict[GPUClass, int] | None = None) -> Contention:
    """Of one node for each class."""
    found, offered = Contention(), capacity or {A100: 800}
    found.set_capacity([Pool(node, each) for node, each in enumerate(offered)], list(offered.values()))
    return found


def with_jobs(*percents: int, capacity: dict[GPUClass, int] | None = None) -> Contention:
    found = contention(capacity)
    for number, percent in enumerate(percents):
        found.add(str(number), Group(0, (A100,)), percent)
    found.refresh()
    return found


def test_where_there_is_room_for_all_the_whole_time_is_guaranteed() -> None:
    assert with_jobs(300, 500).share("0") == 1.0


def test_where_there_is_room_for_nearly_all_nearly_the_fair_share_is() -> None:
    assert 0.95 * 8 / 9 < with_jobs(800, 100).share("0") < 8 / 9


def test_where_demand_is_far_above_capacity_little_is() -> None:
    shares = with_jobs(*[800] * 10)
    assert 0 < shares.share("0") < 0.001, "a fair share is a tenth"


def test_idle_gpus_are_owed_to_those_who_wait() -> None:
    shares = with_jobs(*[800] * 4)
    busy = shares.share("0")
    shares.set_idle([400])
    assert shares.refresh() == {"0", "1", "2", "3"}
    assert shares.share("0") == pytest.approx(0.25 * 0.5)
    assert shares.share("0") > busy


def test_higher_priorities_come_off_the_capacity() -> None:
    shares = contention()
    shares.add("high", Group(10, (A100,)), 400)
    shares.add("low", Group(0, (A100,)), 800)
    shares.refresh()
    assert shares.share("high") == 1.0
    assert shares.share("low") == pytest.approx(0.25)
    shares.add("high", Group(10, (A100,)), 800)
    assert shares.refresh() == {"low", "high"}
    assert shares.share("low") == 0.0


def test_a_scarce_class_is_counted_by_itself() -> None:
    shares = contention({A100: 8000, H100: 800})
    for number in range(8):
        shares.add(f"h{number}", Group(0, (H100,)), 800)
    shares.add("any", Group(0, (A100, H100)), 800)
    shares.add("a", Group(0, (A100,)), 800)
    shares.refresh()
    assert shares.share("a") == 1.0
    assert shares.share("any") > shares.share("h0")


def pinned(*pins: tuple[frozenset[int], int]) -> Contention:
    """Four nodes of 8 GPUs, and gangs of 8 that avoid some of them: each given by these nodes and the number of gangs."""
    found = Contention()
    found.set_capacity([Pool(node, A100) for node in range(4)], [800] * 4)
    for at, (avoided, gangs) in enumerate(pins):
        for number in range(gangs):
            found.add(f"{at}-{number}", Group(0, (A100,), avoided), 800)
    found.refresh()
    return found


def test_who_can_use_other_nodes_only_does_not_count() -> None:
    shares = pinned((frozenset({1, 2, 3}), 30), (frozenset({0, 2, 3}), 1), (frozenset(), 1))
    assert shares.share("1-0") > 0.7
    assert shares.share("0-0") < 0.001


def test_a_job_that_may_run_anywhere_keeps_what_crowds_on_one_node_leave() -> None:
    shares = pinned((frozenset({1, 2, 3}), 30), (frozenset(), 1))
    assert shares.share("1-0") > 0.7


def test_a_job_that_avoids_next_to_nothing_may_run_anywhere() -> None:
    found = Contention()
    found.set_capacity([Pool(node, A100) for node in range(100)], [800] * 100)
    found.add("failed", Group(0, (A100,), frozenset({7})), 80_000)
    found.add("any", Group(0, (A100,)), 80_000)
    found.refresh()
    assert found.share("failed") == found.share("any")


def test_idle_gpus_on_other_nodes_are_owed_to_nobody() -> None:
    shares = pinned((frozenset({1, 2, 3}), 30))
    busy = shares.share("0-0")
    shares.set_idle([0, 800, 800, 800])
    shares.refresh()
    assert shares.share("0-0") == busy
    shares.set_idle([400, 0, 0, 0])
    shares.refresh()
    assert shares.share("0-0") == pytest.approx(0.5 / 30, rel=0.05)


def test_of_many_sets_of_nodes_those_of_the_fewest_nodes_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job with a set of nodes of its own costs a decision nothing then, and is guaranteed what it would be anywhere."""
    monkeypatch.setattr(module, "_MOST_SETS", 2)
    pools = [Pool(node, A100) for node in range(4)]
    narrow = [Group(0, (A100,), frozenset({0, 1, 2, 3} - {node})) for node in range(2)]
    wide = Group(0, (A100,), frozenset({0}))

    def shares_of(*groups: Group) -> tuple[float, ...]:
        found = Contention()
        found.set_capacity(pools, [800] * 4)
        for number, group in enumerate(groups):
            found.add(str(number), group, 1600 if number else 800)
        found.refresh()
        return tuple(found.share(str(number)) for number in range(len(groups)))

    apart = shares_of(*narrow)
    assert shares_of(*narrow, wide)[0] < apart[0], "the wide one counts on all nodes"
    assert shares_of(*narrow, wide) == shares_of(*narrow, Group(0, (A100,)))
    assert shares_of(wide, narrow[0]) != shares_of(Group(0, (A100,)), narrow[0])


def test_who_has_left_does_not_count() -> None:
    shares = with_jobs(800, 800)
    assert shares.share("0") < 0.5
    shares.remove("1")
    assert shares.refresh() == {"0", "1"}
    assert shares.share("0") == 1.0
    assert shares.share("1") == 0.0


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.booleans(),
            st.booleans(),
            st.frozensets(st.integers(0, 3)),
            st.integers(1, 900),
        ),
        max_size=12,
    ),
    st.randoms(),
)
def test_the_order_of_changes_does_not_matter(
    jobs: list[tuple[int, bool, bool, frozenset[int], int]], rng: random.Random
) -> None:
    """What comes and goes in between leaves no trace: sums are exact."""
    wanted = {
        str(number): (
            Group(
                priority, tuple(each for each, takes in ((A100, a), (H100, h)) if takes) or (A100,), avoided
            ),
            percent,
        )
        for number, (priority, a, h, avoided, percent) in enumerate(jobs)
    }
    pools = [Pool(0, A100), Pool(1, A100), Pool(2, H100), Pool(3, A100), Pool(3, H100)]
    straight, shuffled = contention({A100: 100}), contention({A100: 100})
    straight.set_capacity(pools, [700, 300, 200, 100, 100])
    for key, (group, percent) in wanted.items():
        straight.add(key, group, percent)
    order = list(wanted)
    rng.shuffle(order)
    for key in order:
        shuffled.add(key, wanted[key][0], 1 + wanted[key][1] // 2)
        shuffled.add("gone", wanted[key][0], 77)
        shuffled.refresh()
    shuffled.set_capacity(pools, [700, 300, 200, 100, 100])
    for key in order:
        shuffled.add(key, *wanted[key])
    shuffled.remove("gone")
    straight.refresh()
    shuffled.refresh()
    assert {key: straight.share(key) for key in wanted} == {key: shuffled.share(key) for key in wanted}


@given(st.lists(st.integers(1, 900), min_size=1, max_size=12), st.integers(0, 8))
def test_all_guarantees_together_can_be_kept(percents: list[int], idle_gpus: int) -> None:
    shares = with_jobs(*percents)
    shares.set_idle([100 * idle_gpus])
    shares.refresh()
    assert sum(shares.share(str(at)) * percent for at, percent in enumerate(percents)) <= 800 * (1 + 1e-9)
