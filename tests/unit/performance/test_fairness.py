"""The ends of FAIR's rounds, found in a log of turns."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from laneway.lanes.turns import Fair, SessionView

from tests.performance.node.fairness import (
    charged_seconds,
    farthest_percent,
    likely_round_ends,
    opening_seconds,
    round_ends,
)

TURN_SECONDS = 0.005
ITERATION_SECONDS = 0.002
SESSIONS = 16
PODS = tuple(f"pod-{number}" for number in range(SESSIONS))


def charged_by_fair(
    turns: int, delay_seconds: float, opening_seconds: float = 0.0
) -> list[tuple[str, float]]:
    """Return the turns that FAIR gives to sessions of equal weight; one turn in twenty is delayed."""
    policy, random = Fair(TURN_SECONDS), Random(7)
    waiting = {
        key: SessionView(key, 0.0, number * 1e-6, gpu_seconds=opening_seconds)
        for number, key in enumerate(PODS)
    }
    now, charged = 1.0, []
    for _ in range(turns):
        key = policy.choose(waiting.values(), now)
        assert key is not None
        length = TURN_SECONDS * policy.turn_quanta(waiting[key], 1.0)
        seconds = 0.0
        while seconds < length:
            seconds += ITERATION_SECONDS
        seconds += delay_seconds if random.random() < 0.05 else 0.0
        now += seconds
        waiting[key] = SessionView(key, 0.0, now, gpu_seconds=waiting[key].gpu_seconds + seconds)
        charged.append((key, seconds))
    return charged


@pytest.mark.parametrize("delay_seconds", [0.0, 0.003, 0.012])
def test_at_the_end_of_a_round_all_were_charged_for_as_many_turns(delay_seconds: float) -> None:
    charged = charged_by_fair(600, delay_seconds)
    ends = round_ends(charged, TURN_SECONDS, dict.fromkeys(PODS, 0.0))
    assert len(ends) >= 30
    longest_seconds = ITERATION_SECONDS + delay_seconds
    for end in ends:
        service: Counter[str] = Counter()
        for key, seconds in charged[: end.turns]:
            service[key] += seconds
        assert min(service.values()) >= end.number * TURN_SECONDS
        assert max(service.values()) <= end.number * TURN_SECONDS + longest_seconds + 1e-9
    assert bool(ends[29].sit_out) == (longest_seconds > 2 * TURN_SECONDS), (
        "a delay of more than a turn, lately"
    )
    assert farthest_percent(charged[: ends[29].turns]) <= 100 * longest_seconds / (30 * TURN_SECONDS)


@pytest.mark.parametrize("opening_seconds", [0.0, 0.0013, 0.0029, 0.0047])
def test_rounds_are_found_whatever_service_the_sessions_began_with(opening_seconds: float) -> None:
    charged = charged_by_fair(600, 0.0, opening_seconds)
    ends = likely_round_ends(charged, TURN_SECONDS, dict.fromkeys(PODS, 0.0))
    assert len(ends) >= 600 // SESSIONS - 1
    assert not [end for end in ends if end.turns % SESSIONS], "without delays all have a turn in each round"
    for end in ends[20:]:
        assert farthest_percent(charged[: end.turns]) <= 100 * ITERATION_SECONDS / (20 * TURN_SECONDS)


def turn(pod: str, start: float, end: float, waited: float = 0.0) -> dict[str, object]:
    return {"pod": pod, "start_seconds": start, "end_seconds": end, "waited_seconds": waited}


def test_the_holder_of_the_idle_lane_is_charged_from_the_first_request_on() -> None:
    log = [
        turn("a", 1.0, 2.0),
        turn("b", 2.0, 12.006, waited=0.5),
        turn("c", 12.006, 12.011, waited=0.004),
        turn("a", 12.011, 12.015, waited=0.008),
    ]
    assert [pod for pod, _ in charged_seconds(log, 10.0)] == ["b", "c", "a"]
    assert [seconds for _, seconds in charged_seconds(log, 10.0)] == pytest.approx([0.004, 0.005, 0.004])


def test_a_session_that_joins_later_begins_with_the_least_service() -> None:
    turns = [
        turn("a", 1.000, 1.005),
        turn("b", 1.005, 1.011, waited=0.004),
        turn("a", 1.011, 1.015, waited=0.006),
        turn("c", 1.015, 1.020, waited=0.002),
    ]
    charged = [("a", 0.004), ("b", 0.006), ("a", 0.004), ("c", 0.005)]
    assert opening_seconds(turns, charged) == pytest.approx({"a": 0.0, "b": 0.0, "c": 0.004})
