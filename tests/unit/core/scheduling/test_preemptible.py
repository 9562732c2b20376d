"""Jobs that may be preempted are listed in order, even if their places drift between two calls."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling.order.policy import Pace
from laneway.scheduling.state.preemptible import Preemptible
from laneway.scheduling.state.ranking import SortKey

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import NOW


def place(key: str, position: float, queue: int = 0) -> SortKey:
    return (0, queue, (position,), 0.0, key)


def after(listed: Preemptible, position: float, now_seconds: float) -> set[str]:
    return set(listed.after(place("", position), now_seconds)[0])


def test_a_job_that_shrinks_is_passed_by_time_and_not_by_work() -> None:
    listed = Preemptible()
    listed.add(place("shrinks", 100.0), 100, Pace(-2.0), NOW)
    listed.add(place("stands", 50.0), 300, None, NOW)
    assert listed.after(place("", 60.0), NOW) == (["shrinks"], 100)
    assert after(listed, 40.0, NOW + 10) == {"shrinks", "stands"}
    assert after(listed, 60.0, NOW + 30) == set()


def test_larger_levels_come_after_whatever_their_positions() -> None:
    listed = Preemptible()
    listed.add(place("shrinks", 1.0, queue=2), 100, Pace(-1.0), NOW)
    listed.add(place("stands", 1.0, queue=1), 50, None, NOW)
    assert after(listed, 1e9, NOW) == {"shrinks", "stands"}
    assert listed.levels_below((0, 0)) == [(0, 1), (0, 2)]
    assert (listed.percent_below((0, 0)), listed.percent_below((0, 1))) == (150, 100)


def test_who_has_left_is_not_listed() -> None:
    listed = Preemptible()
    listed.add(place("a", 1.0), 100, Pace(1.0), NOW)
    assert listed.comes_later
    listed.remove("a")
    listed.remove("a")
    assert (after(listed, 0.0, NOW), listed.comes_later, listed.levels_below((0, -1))) == (set(), False, [])


@settings(max_examples=examples(100))
@given(
    jobs=st.lists(
        st.tuples(st.floats(0, 1e7), st.sampled_from([None, -1.0, -0.3, -64.0, 2.0]), st.floats(0, 1e5)),
        max_size=12,
    ),
    position=st.floats(-1e6, 1e7),
    later=st.floats(0, 1e6),
)
def test_nobody_is_forgotten_who_comes_after(
    jobs: list[tuple[float, float | None, float]], position: float, later: float
) -> None:
    listed = Preemptible()
    now_seconds = NOW + 1e5 + later
    wanted = set()
    for number, (start, per_second, waited) in enumerate(jobs):
        pace = None if per_second is None else Pace(per_second)
        listed.add(place(f"j{number}", start), 1, pace, NOW + waited)
        drifted = start + (per_second or 0.0) * (now_seconds - (NOW + waited))
        if drifted > position:
            wanted.add(f"j{number}")
    found, percent = listed.after(place("", position), now_seconds)
    assert wanted <= set(found)
    assert percent == len(found)
