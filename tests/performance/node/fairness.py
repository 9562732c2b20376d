"""Measures how equally one lane divides GPU time between 64 sessions with equal weights.

    python -m tests.performance.node.fairness -o fairness.json

64 processes with the real client train without a pause in one lane of one GPU, with the policy FAIR. A session's service is its
time inside iterations in the agent's record of turns, counted from the turn by which every session has had one. The deviation
is that of the session farthest from the mean, in percent of the mean. After 2,000 turns some sessions have had 31 turns and
others 32, which alone is a deviation of 2.4 % under any policy. So the figures are also taken at the ends of the rounds before
and after, where all sessions have had the same number of turns.

A turn is charged for the time for which it keeps others waiting. If other work delays a process while it holds a turn, its
session gets fewer turns later, so the figures mean little on a busy machine. Before each training, the lane is idle until all
accounts are reset.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
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


def measure() -> dict[str, Any]:
    """Return the deviations."""
    with node_with(lanes=1, quantumMilliseconds=QUANTUM_MILLISECONDS) as node:
        crowd = admit(node, SESSIONS)
        crowd.open_sessions()
        time.sleep(IDLE_SECONDS)
        crowd.train(iteration_seconds=ITERATION_SECONDS, seconds=WARM_UP_SECONDS)
        time.sleep(IDLE_SECONDS)
        trained = crowd.train(iteration_seconds=ITERATION_SECONDS, seconds=TRAINING_SECONDS)
        all_began = max(each.turns[0].number for each in trained)
        turns = [
            turn for turn in node.get("/turns") if turn["turn"] > all_began and turn["end"] == "released"
        ]
    turns = turns[: len(turns) - SESSIONS]  # the last round ends one by one
    assert len(turns) > AFTER_TURNS[0], (
        f"{len(turns)} turns since all had one; the machine is too busy: run it again later"
    )
    return {
        "sessions": SESSIONS,
        "turn_milliseconds": round(1000 * sum(turn["gpu_seconds"] for turn in turns) / len(turns), 2),
        "after": [_deviation(turns[:count]) for count in (*AFTER_TURNS, len(turns)) if count <= len(turns)],
    }


def _deviation(turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    seconds: Counter[str] = Counter()
    for turn in turns:
        seconds[turn["pod"]] += turn["gpu_seconds"]
    assert len(seconds) == SESSIONS, f"only {len(seconds)} of {SESSIONS} sessions had turns"
    mean = sum(seconds.values()) / len(seconds)
    farthest = max(abs(service - mean) for service in seconds.values())
    return {
        "turns": len(turns),
        "mean_service_seconds": round(mean, 4),
        "deviation_percent": round(100 * farthest / mean, 2),
    }


if __name__ == "__main__":
    write_measured(measure)
