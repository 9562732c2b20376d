"""Measures how equally one lane divides GPU time between 64 sessions with equal weights.

    python -m tests.performance.node.fairness -o fairness.json

64 processes with the real client train without a pause in one lane of one GPU, with the policy FAIR. A session's service is its
time inside iterations in the agent's record of turns, counted from the turn by which every session has had one. The deviation
is that of the session farthest from the mean, in percent of the mean. After 2,000 turns some sessions have had 31 turns and
others 32, which alone is a deviation of 2.4 % under any policy.

So the deviations are also taken at the ends of the policy's rounds (:func:`likely_round_ends`), of the time that was charged and
of the time inside iterations; and of the time that was charged without the sessions that sit out the next round. A turn is
charged for the time for which it keeps others waiting. If other work delays a process while it holds a turn, its session gets
fewer turns later, so the time inside iterations means little on a busy machine. Before each training, the lane is idle until
all accounts are reset.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.performance.node.crowd import admit, node_with
from tests.performance.result_file import write_measured

SESSIONS = 64
QUANTUM_MILLISECONDS = 5
ITERATION_SECONDS = 0.002
WARM_UP_SECONDS = 3.0
TRAINING_SECONDS = 36.0
IDLE_SECONDS = 1.5
"""Accounts are reset after this time (``TurnSettings.recall_seconds``)."""
AFTER_TURNS = (1_984, 2_000, 2_048, 4_096)
ROUNDS_NEAR_TURNS = 2_000
ROUNDS = 4
"""How many rounds are reported, those whose ends are next to that number of turns."""
OPENINGS = 20
"""How many services are tried with which the sessions may have begun."""


def measure() -> dict[str, Any]:
    """Return the deviations."""
    with node_with(lanes=1, quantumMilliseconds=QUANTUM_MILLISECONDS) as node:
        crowd = admit(node, SESSIONS)
        crowd.open_sessions()
        time.sleep(IDLE_SECONDS)
        crowd.train(iteration_seconds=ITERATION_SECONDS, seconds=WARM_UP_SECONDS)
        time.sleep(IDLE_SECONDS)
        began_seconds = time.time()
        trained = crowd.train(iteration_seconds=ITERATION_SECONDS, seconds=TRAINING_SECONDS)
        all_began = max(each.turns[0].number for each in trained)
        log = [turn for turn in node.get("/turns") if turn["end"] == "released"]
    turns = [turn for turn in log if turn["turn"] > all_began]
    turns = turns[: len(turns) - SESSIONS]  # the last round ends one by one
    assert len(turns) > AFTER_TURNS[0], (
        f"{len(turns)} turns since all had one; the machine is too busy: run it again later"
    )
    return {
        "sessions": SESSIONS,
        "turn_milliseconds": round(1000 * sum(turn["gpu_seconds"] for turn in turns) / len(turns), 2),
        "round_ends": _round_ends(log, began_seconds),
        "after": [_deviation(turns[:count]) for count in (*AFTER_TURNS, len(turns)) if count <= len(turns)],
    }


def charged_seconds(log: Sequence[dict[str, Any]], began_seconds: float) -> list[tuple[str, float]]:
    """Return the pod of each turn that ended after a moment, and what it was charged: the time for which others waited.

    The first holder has its turn since before that. It is charged from the first request of another on.
    """
    turns = [turn for turn in log if turn["end_seconds"] > began_seconds]
    asked_seconds = min(
        turn["start_seconds"] - turn["waited_seconds"]
        for turn in turns
        if turn["start_seconds"] >= began_seconds
    )
    return [
        (turn["pod"], turn["end_seconds"] - max(turn["start_seconds"], asked_seconds))
        for turn in turns
        if turn["end_seconds"] > asked_seconds
    ]


def opening_seconds(
    turns: Sequence[dict[str, Any]], charged: Sequence[tuple[str, float]]
) -> dict[str, float]:
    """Return for each pod the service with which its session joined, beyond that of the first.

    A session joins at its first request, with the least service of those that are there (:meth:`laneway.lanes.turns.Fair.enter`).

    Args:
        turns: of the record.
        charged: what each was charged.
    """
    asked: dict[str, float] = {}
    for turn in turns:
        asked.setdefault(turn["pod"], turn["start_seconds"] - turn["waited_seconds"])
    ended = deque(zip((turn["end_seconds"] for turn in turns), charged, strict=True))
    service: dict[str, float] = {}
    opening: dict[str, float] = {}
    for pod, asked_seconds in sorted(asked.items(), key=lambda each: each[1]):
        while ended[0][0] <= asked_seconds:
            _, (other, seconds) = ended.popleft()
            service[other] += seconds
        service[pod] = opening[pod] = min(service.values(), default=0.0)
    return opening


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """The end of one of FAIR's rounds."""

    number: int
    turns: int
    """How many turns there were until then."""
    sit_out: frozenset[str]
    """The pods that were charged for the next round already: a turn lasted longer than granted."""


def round_ends(
    charged: Sequence[tuple[str, float]], turn_seconds: float, opening: Mapping[str, float]
) -> list[RoundEnd]:
    """Return the ends of FAIR's rounds.

    FAIR gives nobody its next turn before all have had as many whole turns' worth of service. So round *n* ends with the turn by
    which each session was charged for *n* turns. A session that was charged for more sits out later rounds, so a round may have
    fewer turns than there are sessions.

    Args:
        charged: pod and seconds of each turn, in order.
        turn_seconds: the length of turns.
        opening: the service with which each pod's session joined.
    """
    service, ends, rounds = dict(opening), list[RoundEnd](), 1
    behind = sum(each < turn_seconds for each in service.values())
    for count, (pod, seconds) in enumerate(charged, 1):
        before, service[pod] = service[pod], service[pod] + seconds
        if before < rounds * turn_seconds <= service[pod]:
            behind -= 1
        while not behind:
            next_seconds = (rounds + 1) * turn_seconds
            ahead = frozenset(each for each, total in service.items() if total >= next_seconds)
            ends.append(RoundEnd(rounds, count, ahead))
            rounds += 1
            behind = len(service) - len(ahead)
    return ends


def likely_round_ends(
    charged: Sequence[tuple[str, float]], turn_seconds: float, opening: Mapping[str, float]
) -> list[RoundEnd]:
    """Return the ends of FAIR's rounds, if the service with which the first session began is unknown.

    The record of turns does not tell it. With a wrong one, half of the sessions seem to sit out each round. So the one with which
    they sit out least is taken.
    """
    candidates = (
        round_ends(
            charged,
            turn_seconds,
            {pod: seconds + turn_seconds * part / OPENINGS for pod, seconds in opening.items()},
        )
        for part in range(OPENINGS)
    )
    return min(candidates, key=lambda ends: sum(len(end.sit_out) for end in ends) / len(ends))


def _round_ends(log: Sequence[dict[str, Any]], began_seconds: float) -> list[dict[str, Any]]:
    turns = [turn for turn in log if turn["end_seconds"] > began_seconds]
    charged = charged_seconds(turns, began_seconds)
    turns = turns[len(turns) - len(charged) :]
    inside = [(turn["pod"], turn["gpu_seconds"]) for turn in turns]
    opening = opening_seconds(turns, charged)
    ends = likely_round_ends(charged, QUANTUM_MILLISECONDS / 1000, opening)
    near = sorted(ends, key=lambda end: abs(end.turns - ROUNDS_NEAR_TURNS))[:ROUNDS]
    rows = []
    for end in sorted(near, key=lambda end: end.number):
        accounts = [*opening.items(), *charged[: end.turns]]
        rows.append(
            {
                "round": end.number,
                "turns": end.turns,
                "sit_out": len(end.sit_out),
                "others_deviation_percent": farthest_percent(
                    [turn for turn in accounts if turn[0] not in end.sit_out]
                ),
                "charged_deviation_percent": farthest_percent(accounts),
                "deviation_percent": farthest_percent([*opening.items(), *inside[: end.turns]]),
            }
        )
    return rows


def farthest_percent(turns: Sequence[tuple[str, float]]) -> float:
    """Return how far the sum of the session farthest from the mean is from it, in percent of the mean."""
    sums: Counter[str] = Counter()
    for pod, seconds in turns:
        sums[pod] += seconds
    mean = sum(sums.values()) / len(sums)
    return round(100 * max(abs(each - mean) for each in sums.values()) / mean, 2)


def _deviation(turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    seconds = [(turn["pod"], turn["gpu_seconds"]) for turn in turns]
    sessions = {pod for pod, _ in seconds}
    assert len(sessions) == SESSIONS, f"only {len(sessions)} of {SESSIONS} sessions had turns"
    return {
        "turns": len(turns),
        "mean_service_seconds": round(sum(each for _, each in seconds) / SESSIONS, 4),
        "deviation_percent": farthest_percent(seconds),
    }


if __name__ == "__main__":
    write_measured(measure)
