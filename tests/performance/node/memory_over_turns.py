"""The agent's memory over a million turns.

    python -m tests.performance.node.memory_over_turns -o memory-over-turns.json

64 processes in 32 lanes of one GPU take turns over real sockets, with packets written by hand; each keeps a turn for 2 ms, which is as
fast as the agent lets one container go. The agent keeps the records of the last 32,768 turns of a GPU, so its memory grows until these
are full; growth is counted from then on.
"""

from __future__ import annotations

import time
from typing import Any

from tests.performance.node.agent_cost import AgentCost
from tests.performance.node.crowd import node_with
from tests.performance.result_file import write_measured
from tests.support.node_agent.node import Node, PeerProcess

SESSIONS = 64
LANES = 32
HOLD_SECONDS = 0.002
TURNS = 1_000_000
STEPS = 20
FULL_AFTER_TURNS = 100_000


def measure() -> dict[str, Any]:
    """Return the agent's memory as turns went by, and how fast they went."""
    with node_with(lanes=LANES) as node:
        peers = [_peer(node, number) for number in range(SESSIONS)]
        began = AgentCost.of(node.agent_pid)
        began_seconds = time.monotonic()
        samples = []
        taken = 0
        while taken < TURNS:
            taken += _take_turns(peers, TURNS // STEPS // SESSIONS)
            samples.append({"turns": taken, "resident_bytes": AgentCost.of(node.agent_pid).resident_bytes})
        seconds = time.monotonic() - began_seconds
        cost = AgentCost.of(node.agent_pid) - began
    settled = [each for each in samples if each["turns"] >= FULL_AFTER_TURNS]
    return {
        "turns": taken,
        "turns_per_second": round(taken / seconds),
        "agent_cpu_us_per_turn": round(cost.cpu_seconds / taken * 1e6, 1),
        "resident_bytes_at_start": began.resident_bytes,
        "growth_bytes": settled[-1]["resident_bytes"] - settled[0]["resident_bytes"],
        "growth_counted_from_turns": settled[0]["turns"],
        "samples": samples,
    }


def _peer(node: Node, number: int) -> PeerProcess:
    peer = node.container(f"pod-{number}", 100 // SESSIONS).await_socket().process()
    peer.hello()
    peer.profile(1, 5)
    return peer


def _take_turns(peers: list[PeerProcess], each: int) -> int:
    for peer in peers:
        peer.start("take_turns", turns=each, hold_seconds=HOLD_SECONDS)
    return sum(int(peer.finish(seconds=300)["taken"]) for peer in peers)


if __name__ == "__main__":
    write_measured(measure)
