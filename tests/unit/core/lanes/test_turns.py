"""Whose turn it is in a lane."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.lanes.turns import Fair, Pack, SessionView, StarvationBound, TurnPolicy, turn_policy

patient = settings(deadline=None)
"""A busy machine is not a failure."""


def session(
    key: str, *, gpu: float = 0.0, arrived: float = 0.0, since: float = 0.0, weight: int = 1
) -> SessionView:
    return SessionView(
        key, arrived_seconds=arrived, waiting_since_seconds=since, gpu_seconds=gpu, weight=weight
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
            "PACK: the first to arrive is next",
            Pack(),
            [session("a", arrived=2), session("b", arrived=1, gpu=9)],
            "b",
        ),
        ("PACK: nobody waits", Pack(), [], None),
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


def test_pack_and_the_bound_take_service_as_it_is() -> None:
    newcomer = session("n", gpu=3)
    assert Pack().enter(newcomer, [session("a", gpu=50)]) == 3
    assert StarvationBound(Fair(), 5).enter(newcomer, [session("a", gpu=50)]) == 50


def test_policies_have_names() -> None:
    assert turn_policy("pack", starvation_seconds=5) == StarvationBound(Pack(), 5)
    with pytest.raises(ValueError, match="no turn policy 'lifo'; write one of fair, pack"):
        turn_policy("lifo", starvation_seconds=5)
    with pytest.raises(ValueError, match="bound_seconds is 0"):
        turn_policy("fair", starvation_seconds=0)
    with pytest.raises(ValueError, match="weight of session a is 0"):
        session("a", weight=0)


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
                waiting_since_seconds=now,
                turns=views[key].turns + 1,
            )
        return {key: view.gpu_seconds for key, view in views.items()}, longest


iterations = st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(1, 4)), min_size=2, max_size=6)


@patient
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


@patient
@given(iterations, st.sampled_from(["fair", "pack"]))
def test_nobody_waits_longer_than_the_bound_and_one_turn_of_each(
    rows: list[tuple[float, int]], name: str
) -> None:
    lane = Lane(
        turn_policy(name, starvation_seconds=3),
        {str(i): seconds for i, (seconds, _) in enumerate(rows)},
        {str(i): weight for i, (_, weight) in enumerate(rows)},
    )
    _, longest = lane.run(until_seconds=60)
    assert max(longest.values()) <= 3 + sum(lane.iteration_seconds.values()) + 1e-6
