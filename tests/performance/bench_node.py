"""All benchmarks of the node, one after the other: a real agent, simulated GPUs, processes with the real client.

    python -m tests.performance.bench_node --results docs/measurements

``--only hand-off,makespan`` runs some of them. Each result is written with the machine and the date, and the tables of
``docs/measurements.md`` are written from them at the end. Takes about fourteen minutes, half of
them for the attacks.
"""

from __future__ import annotations

import sys

from tests.performance.bench_block import run_block
from tests.performance.node.tables import NODE

MODULES = {
    "boundary": "node.boundary",
    "hand-off": "node.hand_off",
    "fairness": "node.fairness",
    "shares": "node.shares",
    "launch-gate": "node.launch_gate",
    "agent-load": "node.agent_load",
    "memory": "node.memory_over_turns",
    "makespan": "node.makespan",
    "scale": "node.scale",
    "attacks": "node.attacks",
    "http-attacks": "node.http_attacks",
    "hostile-pods": "node.hostile_pods",
    "interposer-start": "node.interposer_start",
}
"""Below ``tests.performance``, by name, in the order in which they run."""

ON_REQUEST = frozenset({"hostile-pods"})
"""Needs root and a cluster of its own; about ten minutes."""

if __name__ == "__main__":
    sys.exit(run_block(NODE, MODULES, __doc__, prefix="node-", on_request=ON_REQUEST))
