"""Whose turn it is in a lane."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.lanes.turns import (
    TURN_POLICIES,
    Fair,
    LeastAttained,
    Pack,
    SessionView,
    ShortestRemaining,
    StarvationBound,
    TurnPolicy,
    turn_policy,
)

"""A busy machine is not a failure."""


def session(
    key: str,
    *,
    gpu: float = 0.0,
    arrived: float = 0.0,
    since: float = 0.0,
    weight: int = 1,
    attained: float = 0.0,
    remaining: float | None = None,
) -> SessionView:
    return SessionView(
        key,
        arrived_seconds=arrived,
        waiting_since_seconds=since,
        gpu_seconds=gpu,
        weight=weight,
        attained_seconds=attained,
        remaining_seconds=remaining,
    )


@pytest.mark.parametrize(
    ("story", "policy", "waiting", "want"),
    [
        ("nobody waits", Fair(), [], None),
        ("FAIR: the least service is next", Fair(), [session("a", gpu=2), session("b", gpu=1)], "b"),
        ("FAIR: service counts by weight", Fair(), [session("a", gpu=2, weight=3), session("b", gpu=1)], "a"),
        ("FAIR: of equals, who waits longest", Fair(), [session("a", since=5), session("b", since=4)], "b"),
        ("FAIR: then the smaller key, not the list", Fair(), [session("b"), session("a")], "a"),
        (
            "FAIR: who has had as many quanta waits in line, whatever it has had beyond",
            Fair(2.0),
            [session("a", gpu=4.1, since=5), session("b", gpu=5.9, since=4)],
            "b",
        ),
        (
            "PACK: the first to arrive is next",
            Pack(),
            [session("a", arrived=2), session("b", arrived=1, gpu=9)],
            "b",
        ),
        ("PACK: nobody waits", Pack(), [], None),
        (
            "SRTF: the shortest remaining time is next",
            ShortestRemaining(),
            [session("a", remaining=9, arrived=1), session("b", remaining=3, arrived=2)],
            "b",
        ),
        (
            "SRTF: of whom nothing is known comes after those of whom it is",
            ShortestRemaining(),
            [session("a", attained=0), session("b", remaining=1e6)],
            "b",
        ),
        (
            "SRTF: of the unknown, the least attained",
            ShortestRemaining(),
            [session("a", attained=5, arrived=1), session("b", attained=4, arrived=2)],
            "b",
        ),
        (
            "SRTF: of equals, the first to arrive",
            ShortestRemaining(),
            [session("a", remaining=3, arrived=2), session("b", remaining=3, arrived=1)],
            "b",
        ),
        ("SRTF: nobody waits", ShortestRemaining(), [], None),
        (
            "LAS: a higher queue is next",
            LeastAttained((10, 100)),
            [session("a", attained=10, arrived=1), session("b", attained=9, arrived=2)],
            "b",
        ),
        (
            "LAS: within a queue the first to arrive, whatever it attained there",
            LeastAttained((10, 100)),
            [session("a", attained=90, arrived=1), session("b", attained=11, arrived=2)],
            "a",
        ),
        (
            "LAS: the last queue has no end",
            LeastAttained((10, 100)),
            [session("a", attained=1e9, arrived=1), session("b", attained=100, arrived=2)],
            "a",
        ),
        ("LAS: nobody waits", LeastAttained(), [], None),
        (
            "who waits beyond the bound is next, whatever the policy says",
            StarvationBound(Pack(), 10),
            [
                session("a", arrived=1, since=95),
                session("b", arrived=2, since=85),
                session("c", arrived=3, since=80),
            ],
            "c",
        ),
        (
            "within the bound the policy decides",
            StarvationBound(Pack(), 30),
            [session("a", arrived=1, since=95), session("b", arrived=2, since=85)],
            "a",
        ),
    ],
)
def test_who_is_next(story: str, policy: TurnPolicy, waiting: list[SessionView], want: str | None) -> None:
    assert policy.choose(waiting, now_seconds=100) == want, story


@pytest.mark.parametrize(
    ("story", "own", "weight", "active", "want"),
    [
        ("alone, a session starts from what it had", 3.0, 1, [], 3.0),
        (
            "a newcomer starts where the least served is",
            0.0,
            1,
            [session("a", gpu=50), session("b", gpu=40)],
            40.0,
        ),
        ("by weight", 0.0, 2, [session("a", gpu=50)], 100.0),
        ("nobody is lowered", 60.0, 1, [session("a", gpu=50)], 60.0),
    ],
)
def test_fair_lifts_who_joins(
    story: str, own: float, weight: int, active: list[SessionView], want: float
) -> None:
    assert Fair().enter(session("n", gpu=own, weight=weight), active) == want, story


@pytest.mark.parametrize("policy", [Pack(), ShortestRemaining(), LeastAttained()])
def test_only_fair_lifts_who_joins(policy: TurnPolicy) -> None:
    newcomer = session("n", gpu=3)
    assert policy.enter(newcomer, [session("a", gpu=50)]) == 3
    assert StarvationBound(Fair(), 5).enter(newcomer, [session("a", gpu=50)]) == 50


def test_policies_have_names() -> None:
    assert turn_policy("pack", starvation_seconds=5) == StarvationBound(Pack(), 5)
    las = turn_policy("las", starvation_seconds=5, thresholds_seconds=(1, 2))
    assert las == StarvationBound(LeastAttained((1, 2)), 5)
    with pytest.raises(ValueError, match="no turn policy 'lifo'; write one of fair, las, pack, srtf"):
        turn_policy("lifo", starvation_seconds=5)
    with pytest.raises(ValueError, match="bound_seconds is 0"):
        turn_policy("fair", starvation_seconds=0)
    with pytest.raises(ValueError, match="weight of session a is 0"):
        session("a", weight=0)


@pytest.mark.parametrize("thresholds", [(), (0.0,), (5.0, 5.0), (9.0, 3.0)])
def test_thresholds_that_make_no_queues_are_refused(thresholds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"thresholds_seconds is .* above 0 and rising"):
        LeastAttained(thresholds)


@dataclass
class Lane:
    """Sessions that always want the next turn; a turn lasts one iteration of the session."""

    policy: TurnPolicy
    iteration_seconds: dict[str, float]
    weights: dict[str, int]

    def run(self, until_seconds: float) -> tuple[dict[str, float], dict[str, float]]:
        """Return the service that each had, and the longest that each waited."""
        views = {key: session(key, weight=self.weights[key], arrived=i) for i, key in enumerate(self.weights)}
        longest = dict.fromkeys(views, 0.0)
        now = 0.0
        while now < until_seconds:
            key = self.policy.choose(views.values(), now)
            assert key is not None
            longest[key] = max(longest[key], now - views[key].waiting_since_seconds)
            now += self.iteration_seconds[key]
            views[key] = replace(
                views[key],
                gpu_seconds=views[key].gpu_seconds + self.iteration_seconds[key],
                attained_seconds=views[key].attained_seconds + self.iteration_seconds[key],
                waiting_since_seconds=now,
                turns=views[key].turns + 1,
            )
        return {key: view.gpu_seconds for key, view in views.items()}, longest


iterations = st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(1, 4)), min_size=2, max_size=6)


@given(iterations)
def test_fair_gives_equal_service_for_equal_weight(rows: list[tuple[float, int]]) -> None:
    lane = Lane(
        Fair(),
        {str(i): seconds for i, (seconds, _) in enumerate(rows)},
        {str(i): weight for i, (_, weight) in enumerate(rows)},
    )
    service, _ = lane.run(until_seconds=100)
    shares = [service[key] / lane.weights[key] for key in service]
    longest_iteration = max(lane.iteration_seconds.values())
    assert max(shares) - min(shares) <= longest_iteration + 1e-6


QUANTUM_SECONDS = 0.1


def turns_in_rounds(rows: list[tuple[float, int]], count: int) -> Iterator[list[SessionView]]:
    """Have sessions that always want turns run by FAIR with a quantum; yield them before the first turn and after each.

    Args:
        rows: the time of an iteration and the weight of each.
        count: how many turns.
    """
    policy = turn_policy("fair", starvation_seconds=1e6, quantum_seconds=QUANTUM_SECONDS)
    views = [session(str(i), weight=weight) for i, (_, weight) in enumerate(rows)]
    mean_weight = sum(weight for _, weight in rows) / len(rows)
    now = 0.0
    yield views
    for _ in range(count):
        number = int(policy.choose(views, now) or 0)
        allotted = QUANTUM_SECONDS * policy.turn_quanta(views[number], mean_weight)
        iteration_seconds = rows[number][0]
        lasted = max(1, ceil(allotted / iteration_seconds - 1e-9)) * iteration_seconds
        now += lasted
        views = views.copy()
        views[number] = replace(
            views[number],
            gpu_seconds=views[number].gpu_seconds + lasted,
            waiting_since_seconds=now,
            turns=views[number].turns + 1,
        )
        yield views


def turn_seconds(rows: list[tuple[float, int]], number: int) -> float:
    """Return a session's part of a round."""
    return QUANTUM_SECONDS * len(rows) * rows[number][1] / sum(weight for _, weight in rows)


@given(iterations)
def test_fair_keeps_no_two_apart_by_more_than_a_turn_and_an_iteration(
    rows: list[tuple[float, int]],
) -> None:
    for views in turns_in_rounds(rows, 200):
        least = min(view.gpu_seconds / view.weight for view in views)
        for number, (view, (iteration_seconds, weight)) in enumerate(zip(views, rows, strict=True)):
            ahead = view.gpu_seconds / weight - least
            assert ahead <= (turn_seconds(rows, number) + iteration_seconds) / weight + 1e-6


SHARES = st.lists(st.tuples(st.floats(0.001, 0.3), st.integers(1, 90)), min_size=2, max_size=8)
"""Iterations of 1 to 300 ms, and shares."""


@given(
    st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(1, 90), st.integers(0, 9)), min_size=2, max_size=6),
    st.data(),
)
def test_fair_ranks_sessions_alike_whoever_is_compared(
    rows: list[tuple[float, int, int]], data: st.DataObject
) -> None:
    """The one that has just left is not compared, and one that comes is compared only with the next one."""
    policy = turn_policy("fair", starvation_seconds=1e6, quantum_seconds=QUANTUM_SECONDS)
    views = [
        session(str(i), gpu=gpu, weight=weight, since=since) for i, (gpu, weight, since) in enumerate(rows)
    ]
    mean_weight = sum(view.weight for view in views) / len(views)
    preferred = policy.choose(views, 10.0)
    some = data.draw(st.lists(st.sampled_from(views), unique_by=lambda view: view.key))
    compared = [*some, *(view for view in views if view.key == preferred and view not in some)]
    assert policy.choose(compared, 10.0, mean_weight) == preferred


@given(SHARES)
def test_fair_bounds_the_lag_of_each_session(rows: list[tuple[float, int]]) -> None:
    """At the ends of turns; between two of them a lag lies between its values there."""
    total = sum(weight for _, weight in rows)
    for views in turns_in_rounds(rows, 120):
        now = sum(view.gpu_seconds for view in views)
        for number, (view, (iteration_seconds, weight)) in enumerate(zip(views, rows, strict=True)):
            share = weight / total
            others_seconds = sum(seconds for seconds, _ in rows) - iteration_seconds
            lag_seconds = share * now - view.gpu_seconds
            turn = turn_seconds(rows, number)
            assert lag_seconds < (1 - share) * turn + share * others_seconds + 1e-6
            assert lag_seconds > -(1 - share) * (turn + iteration_seconds) - 1e-6


@given(SHARES, st.integers(1, 10))
def test_fair_gives_each_session_its_share_over_any_turns_of_its_own(
    rows: list[tuple[float, int]], turns: int
) -> None:
    """Less a turn and an iteration of its own, and its share of one of each other session."""
    total = sum(weight for _, weight in rows)
    views = list(turns_in_rounds(rows, 120))
    now = [sum(view.gpu_seconds for view in each) for each in views]
    for number, (iteration_seconds, weight) in enumerate(rows):
        share = weight / total
        service = [each[number].gpu_seconds for each in views]
        begins = [at for at in range(len(views) - 1) if service[at + 1] > service[at]]
        allowed_seconds = (1 - share) * (turn_seconds(rows, number) + iteration_seconds)
        allowed_seconds += share * (sum(seconds for seconds, _ in rows) - iteration_seconds)
        for begin, end in zip(begins, begins[turns:], strict=False):
            got_seconds = service[end] - service[begin]
            assert got_seconds > share * (now[end] - now[begin]) - allowed_seconds - 1e-6


def test_with_fair_a_small_share_has_a_turn_in_each_round() -> None:
    """60/20/10/10 and iterations of 20 ms: a round takes four quanta, and each share holds within any ten turns."""
    rows = [(0.02, 60), (0.02, 20), (0.02, 10), (0.02, 10)]
    views = list(turns_in_rounds(rows, 400))
    now = [sum(view.gpu_seconds for view in each) for each in views]
    for number, (_, weight) in enumerate(rows):
        service = [each[number].gpu_seconds for each in views]
        begins = [at for at in range(len(views) - 1) if service[at + 1] > service[at]]
        assert max(now[b] - now[a] for a, b in pairwise(begins)) <= 0.4 + 1e-6
        for begin, end in zip(begins, begins[10:], strict=False):
            share_seconds = weight / 100 * (now[end] - now[begin])
            assert service[end] - service[begin] >= share_seconds - 1e-6


@given(st.lists(st.floats(0.003, 0.95 * QUANTUM_SECONDS), min_size=2, max_size=8))
def test_fair_has_rounds_at_whose_ends_all_are_within_an_iteration(lengths: list[float]) -> None:
    for number, views in enumerate(turns_in_rounds([(each, 1) for each in lengths], 40 * len(lengths))):
        if number % len(lengths) == 0:
            services = [view.gpu_seconds for view in views]
            assert {view.turns for view in views} == {number // len(lengths)}
            assert max(services) - min(services) <= max(lengths) + 1e-6


SMALL_QUEUES: dict[str, dict[str, object]] = {"las": {"thresholds_seconds": (2.0, 8.0)}}


@dataclass
class Visitor:
    """A session that wants a turn, has it for an iteration, thinks, and asks again."""

    iteration_seconds: float
    thinking_seconds: float
    remaining_seconds: float | None


visitors = st.builds(
    Visitor,
    st.floats(0.01, 1.0),
    st.sampled_from([0.0, 0.0, 0.1, 2.0]),
    st.one_of(st.none(), st.floats(0.0, 100.0)),
)


@given(
    st.lists(visitors, min_size=2, max_size=6), st.sampled_from(sorted(TURN_POLICIES)), st.floats(0.5, 5.0)
)
def test_nobody_waits_longer_than_the_bound_and_one_turn_of_each(
    rows: list[Visitor], name: str, bound_seconds: float
) -> None:
    policy = turn_policy(name, starvation_seconds=bound_seconds, **SMALL_QUEUES.get(name, {}))
    views = {
        str(number): session(str(number), arrived=number, remaining=row.remaining_seconds)
        for number, row in enumerate(rows)
    }
    longest_seconds, now = 0.0, 0.0
    while now < 60:
        waiting = [view for view in views.values() if view.waiting_since_seconds <= now]
        key = policy.choose(waiting, now)
        if key is None:
            now = min(view.waiting_since_seconds for view in views.values())
            continue
        view, row = views[key], rows[int(key)]
        longest_seconds = max(longest_seconds, now - view.waiting_since_seconds)
        now += row.iteration_seconds
        remaining = view.remaining_seconds
        views[key] = replace(
            view,
            gpu_seconds=view.gpu_seconds + row.iteration_seconds,
            attained_seconds=view.attained_seconds + row.iteration_seconds,
            remaining_seconds=None if remaining is None else max(0.0, remaining - row.iteration_seconds),
            waiting_since_seconds=now + row.thinking_seconds,
        )
    assert longest_seconds <= bound_seconds + sum(row.iteration_seconds for row in rows) + 1e-6


@pytest.mark.parametrize("name", ["las", "pack", "srtf"])
def test_without_the_bound_somebody_would_wait_for_ever(name: str) -> None:
    """What the bound is there for: a policy that is not fair lets one of two wait as long as the other wants turns."""
    bare = TURN_POLICIES[name](**SMALL_QUEUES.get(name, {}))
    greedy = session("greedy", arrived=0, remaining=1, attained=100)
    patient_one = session("patient", arrived=1, remaining=2, attained=100)
    assert bare.choose([greedy, patient_one], now_seconds=1e9) == "greedy"
    assert StarvationBound(bare, 60).choose(
        [replace(greedy, waiting_since_seconds=1e9), patient_one], 1e9
    ) == ("patient")


def run_jobs(policy: TurnPolicy, sizes: dict[str, float], quantum_seconds: float = 1.0) -> dict[str, float]:
    """Run jobs that all came at once, in the order of the mapping, to their ends; return when each ended."""
    views = {
        key: session(key, arrived=number, remaining=size) for number, (key, size) in enumerate(sizes.items())
    }
    ends: dict[str, float] = {}
    now = 0.0
    while views:
        key = policy.choose(views.values(), now)
        assert key is not None
        view = views[key]
        assert view.remaining_seconds is not None
        spent = min(quantum_seconds, view.remaining_seconds)
        now += spent
        views[key] = replace(
            view,
            gpu_seconds=view.gpu_seconds + spent,
            attained_seconds=view.attained_seconds + spent,
            remaining_seconds=view.remaining_seconds - spent,
            waiting_since_seconds=now,
        )
        if views[key].remaining_seconds == 0:
            ends[key] = now
            del views[key]
    return ends


def test_each_policy_ends_jobs_in_its_own_order() -> None:
    sizes = {"long": 30.0, "short": 3.0, "middle": 8.0}
    assert run_jobs(Pack(), sizes) == {"long": 30, "short": 33, "middle": 41}
    assert run_jobs(ShortestRemaining(), sizes) == {"short": 3, "middle": 11, "long": 41}
    # Tiresias: all pass the first queue (5 s) in order of arrival; then the rest, again in that order.
    assert run_jobs(LeastAttained((5.0,)), sizes) == {"short": 8, "long": 38, "middle": 41}
    fair = run_jobs(Fair(), sizes)
    assert fair["short"] < fair["middle"] < fair["long"] == 41
