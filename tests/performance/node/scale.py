"""One node as large as they come: 16 GPUs with 32 sessions each.

    python -m tests.performance.node.scale -o scale.json

512 processes with the real client train without a pause, in one lane per GPU. They share this machine's cores with the agent,
so the latencies include their load. Between opening and training, all lanes are idle for a while: 512 processes that open at
once delay one another, some by half a second while they hold a turn. Without the pause, their sessions would be charged for
that delay and get few turns in these 20 s.
"""

from __future__ import annotations

import time
from typing import Any

from tests.performance.node.crowd import Crowd, admit, node_with
from tests.performance.node.hand_off import hand_offs_of_lane_us
from tests.performance.node.latencies import summary
from tests.performance.result_file import write_measured

GPUS = 16
SESSIONS = 32
QUANTUM_MILLISECONDS = 20
ITERATION_SECONDS = 0.01
TRAINING_SECONDS = 20.0
IDLE_SECONDS = 1.5
"""Accounts are reset after this time (``TurnSettings.recall_seconds``)."""


def measure() -> dict[str, Any]:
    """Return what the agent needs, and how turns pass."""
    with node_with(gpus=GPUS, lanes=1, quantumMilliseconds=QUANTUM_MILLISECONDS) as node:
        crowds = [admit(node, SESSIONS, gpu) for gpu in range(GPUS)]
        crowd = Crowd(
            node,
            tuple(pod for each in crowds for pod in each.pods),
            tuple(process for each in crowds for process in each.processes),
        )
        began_seconds, began = time.monotonic(), crowd.cost()
        for each in crowds:
            each.open_sessions()
        opened_seconds = time.monotonic() - began_seconds
        time.sleep(IDLE_SECONDS)
        before = crowd.cost()
        crowd.start_training(iteration_seconds=ITERATION_SECONDS, seconds=TRAINING_SECONDS)
        asked_seconds = time.monotonic()
        node.get("/metrics")
        scrape_seconds = time.monotonic() - asked_seconds
        trained = crowd.await_training()
        after = crowd.cost()
        lanes = crowd.by_lane(trained)
    turns = sum(len(each.turns) for each in trained)
    hand_offs = [each for lane in lanes for each in hand_offs_of_lane_us([trained.turns for trained in lane])]
    cpu_seconds = after.cpu_seconds - before.cpu_seconds
    return {
        "gpus": GPUS,
        "sessions": GPUS * SESSIONS,
        "all_open_and_profiled_seconds": round(opened_seconds, 1),
        "agent_cpu_ms_per_opening": round(1000 * (before - began).cpu_seconds / (GPUS * SESSIONS), 2),
        "turns_per_second": round(turns / TRAINING_SECONDS),
        "fewest_turns_of_a_session": min(len(each.turns) for each in trained),
        "most_turns_of_a_session": max(len(each.turns) for each in trained),
        "agent_core_percent": round(100 * cpu_seconds / TRAINING_SECONDS, 1),
        "agent_cpu_us_per_turn": round(cpu_seconds / turns * 1e6, 1),
        "agent_resident_bytes": after.resident_bytes,
        "scrape_milliseconds": round(1000 * scrape_seconds, 1),
        "hand_off": summary(hand_offs),
    }


if __name__ == "__main__":
    write_measured(measure)
