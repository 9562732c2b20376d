"""Observes whether a container computes without a turn: from a reading of its GPU and its turns."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.lanes.unscheduled_use import Observation, UnscheduledUse
from laneway.node_agent.enforcement.violation import Claim
from laneway.node_agent.gpus.protocol import GPUReading

WITHOUT_TURN = "its processes compute without a turn while others of its lane take turns: run it with the client, or request whole GPUs"
WARNS_ONLY = "no process is stopped (watchdog.computeWithoutTurn: Warn)"


def observe(use: UnscheduledUse, claim: Claim, reading: GPUReading, pids: Iterable[int]) -> UnscheduledUse:
    """Return what is known after a reading.

    Args:
        use: what was known before.
        claim: the container's claim, with its turns.
        reading: the GPU's reading.
        pids: the container's processes on the GPU. Those that compute side by side count once, as they share a turn.
    """
    utilization = reading.process_utilization
    if utilization is None:
        return use.after(None)
    turns = claim.turns
    return use.after(
        Observation(
            reading.taken_seconds,
            max((utilization.get(pid, 0.0) for pid in pids), default=0.0),
            turns.turn_seconds,
            turns.recent_ratio,
            turns.contended,
        )
    )
