"""What turns cost the agent when 64 sessions of one GPU take about a thousand a second.

    python -m tests.performance.node.agent_load -o agent-load.json

64 processes with the real client in sixteen lanes; the time is that of the agent's process, user and system, all threads.
They train before that is measured, until the agent has found out that their lanes can run in parallel.
"""

from __future__ import annotations

from typing import Any

from tests.performance.node.crowd import admit, node_with
from tests.performance.node.hand_off import hand_offs_of_lane_us
from tests.performance.node.latencies import summary
from tests.performance.result_file import write_measured

SESSIONS = 64
LANES = 16
ITERATION_SECONDS = 0.003
TRAINING_SECONDS = 15.0
WARM_UP_SECONDS = 30.0
"""Tenants change lanes until all are profiled, which also mixes the numbers of their turns; then lanes take turns until a
trial of running in parallel has succeeded."""


def measure() -> dict[str, Any]:
    """Return the rate of turns, and what one costs."""
    with node_with(lanes=LANES, quantumMilliseconds=1) as node:
        crowd = admit(node, SESSIONS)
        crowd.open_sessions()
        crowd.train(iteration_seconds=ITERATION_SECONDS, seconds=WARM_UP_SECONDS)
        before = crowd.cost()
        trained = crowd.train(iteration_seconds=ITERATION_SECONDS, seconds=TRAINING_SECONDS)
        cost = crowd.cost() - before
        lanes = crowd.by_lane(trained)
    turns = sum(len(each.turns) for each in trained)
    hand_offs = [each for lane in lanes for each in hand_offs_of_lane_us([trained.turns for trained in lane])]
    cpu_us = cost.cpu_seconds / turns * 1e6
    return {
        "sessions": SESSIONS,
        "lanes": len(lanes),
        "turns_per_second": round(turns / TRAINING_SECONDS),
        "agent_cpu_us_per_turn": round(cpu_us, 1),
        "core_percent_at_1000_turns_per_second": round(cpu_us / 10, 2),
        "hand_off": summary(hand_offs),
    }


if __name__ == "__main__":
    write_measured(measure)
