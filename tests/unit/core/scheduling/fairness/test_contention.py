"""How much of the time is guaranteed to each job."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling.fairness.contention import Contention
from laneway.scheduling.model.gpu_class import GPUClass, class_of

from tests.unit.core.scheduling.builders import a_node

A100 = class_of(a_node("n", 1).gpus[0])
H100 = class_of(a_node("n", 1, model="H100").gpus[0])


def contention(capacity: dict[GPUClass, int] | None = None) -> Contention:
    found = Contention()
    found.set_capacity(capacity or {A100: 800})
    return found


def with_jobs(*percents: int, capacity: dict[GPUClass, int] | None = None) -> Contention:
    found = contention(capacity)
    for number, percent in enumerate(percents):
        found.add(str(number), (0, (A100,)), percent)
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
    shares.set_idle({A100: 400})
    assert shares.refresh() == {"0", "1", "2", "3"}
    assert shares.share("0") == pytest.approx(0.25 * 0.5)
    assert shares.share("0") > busy


def test_higher_priorities_come_off_the_capacity() -> None:
    shares = contention()
    shares.add("high", (10, (A100,)), 400)
    shares.add("low", (0, (A100,)), 800)
    shares.refresh()
    assert shares.share("high") == 1.0
    assert shares.share("low") == pytest.approx(0.25)
    shares.add("high", (10, (A100,)), 800)
    assert shares.refresh() == {"low", "high"}
    assert shares.share("low") == 0.0


def test_a_scarce_class_is_counted_by_itself() -> None:
    shares = contention({A100: 8000, H100: 800})
    for number in range(8):
        shares.add(f"h{number}", (0, (H100,)), 800)
    shares.add("any", (0, (A100, H100)), 800)
    shares.add("a", (0, (A100,)), 800)
    shares.refresh()
    assert shares.share("a") == 1.0
    assert shares.share("any") > shares.share("h0")


def test_who_has_left_does_not_count() -> None:
    shares = with_jobs(800, 800)
    assert shares.share("0") < 0.5
    shares.remove("1")
    assert shares.refresh() == {"0", "1"}
    assert shares.share("0") == 1.0
    assert shares.share("1") == 0.0


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans(), st.integers(1, 900)), max_size=12),
    st.randoms(),
)
def test_the_order_of_changes_does_not_matter(
    jobs: list[tuple[int, bool, bool, int]], rng: random.Random
) -> None:
    """What comes and goes in between leaves no trace: sums are exact."""
    wanted = {
        str(number): (
            (priority, tuple(each for each, takes in ((A100, a), (H100, h)) if takes) or (A100,)),
            percent,
        )
        for number, (priority, a, h, percent) in enumerate(jobs)
    }
    straight, shuffled = contention({A100: 700, H100: 300}), contention({A100: 100})
    for key, (group, percent) in wanted.items():
        straight.add(key, group, percent)
    order = list(wanted)
    rng.shuffle(order)
    for key in order:
        shuffled.add(key, wanted[key][0], 1 + wanted[key][1] // 2)
        shuffled.add("gone", wanted[key][0], 77)
    shuffled.set_capacity({A100: 700, H100: 300})
    for key in order:
        shuffled.add(key, *wanted[key])
    shuffled.remove("gone")
    straight.refresh()
    shuffled.refresh()
    assert {key: straight.share(key) for key in wanted} == {key: shuffled.share(key) for key in wanted}


@given(st.lists(st.integers(1, 900), min_size=1, max_size=12), st.integers(0, 8))
def test_all_guarantees_together_can_be_kept(percents: list[int], idle_gpus: int) -> None:
    shares = with_jobs(*percents)
    shares.set_idle({A100: 100 * idle_gpus})
    shares.refresh()
    assert sum(shares.share(str(at)) * percent for at, percent in enumerate(percents)) <= 800 * (1 + 1e-9)
