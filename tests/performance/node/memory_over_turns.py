"""The agent's memory over a million turns.

    python -m tests.performance.node.memory_over_turns -o memory-over-turns.json

Four processes, two a lane of two GPUs, take turns over real sockets as fast as the agent gives them, with packets written by
hand: a turn of the real client would last at least 2 ms. The agent keeps the records of the last 32,768 turns a GPU, so its memory grows until
these are full; growth is counted from then on.
"""

from __future__ import annotations

import time
from typing import Any

from tests.integration.node_agent.node import PeerProcess
from tests.performance.node.agent_cost import AgentCost
from tests.performance.node.crowd import node_with
from tests.performance.result_file import write_measured

GPUS = 2
TURNS = 1_000_000
STEPS = 20
FULL_AFTER_TURNS = 100_000


def measure() -> dict[str, Any]:
    """Return the agent's memory as turns went by, and how fast they went."""
    with node_with(gpus=GPUS, lanes=1, quantumMilliseconds=1) as node:
        peers = []
        for gpu in range(GPUS):
            for name in "ab":
                peer = node.container(f"{name}-{gpu}", 100, gpu=gpu).await_socket().process()
                peer.hello()
                peer.profile(10, 10)
                peers.append(peer)
        began = AgentCost.of(node.agent_pid)
        began_seconds = time.monotonic()
        samples = []
        for step in range(1, STEPS + 1):
            _take_turns(peers, TURNS // STEPS // len(peers))
            resident = AgentCost.of(node.agent_pid).resident_bytes
            samples.append({"turns": step * TURNS // STEPS, "resident_bytes": resident})
        seconds = time.monotonic() - began_seconds
        cost = AgentCost.of(node.agent_pid) - began
    settled = [each["resident_bytes"] for each in samples if each["turns"] >= FULL_AFTER_TURNS]
    return {
        "turns": TURNS,
        "turns_per_second": round(TURNS / seconds),
        "agent_cpu_us_per_turn": round(cost.cpu_seconds / TURNS * 1e6, 1),
        "resident_bytes_at_start": began.resident_bytes,
        "growth_bytes": settled[-1] - settled[0],
        "growth_counted_from_turns": FULL_AFTER_TURNS,
        "samples": samples,
    }


def _take_turns(peers: list[PeerProcess], each: int) -> None:
    for peer in peers:
        peer.start("take_turns", turns=each)
    for peer in peers:
        assert peer.finish(seconds=300)["taken"] == each


if __name__ == "__main__":
    write_measured(measure)
