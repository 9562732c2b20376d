"""Which level can be held on a GPU, and why no stronger one: pure.

What is asked for and cannot be held falls to the next lower level, with the reason beside it; never silently.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneway.api.enforcement import Enforcement, reaches
from laneway.node_agent.gpus.protocol import GPUReading


@dataclass(frozen=True, slots=True)
class Level:
    """What is in force on a GPU."""

    enforcement: Enforcement
    reason: str = ""
    """Why that is less than what was asked for; empty where it is not."""


NOT_LOOKED_AT = "the GPU has not been looked at yet"


@dataclass(frozen=True, slots=True)
class Means:
    """What there is to hold a container with, beside its client; each text says why it cannot be used, or is empty."""

    reading: GPUReading | None
    unread: str = NOT_LOOKED_AT
    """Why there is no reading."""

    no_eviction: str = ""
    """Why the agent stops nobody's processes."""

    no_mps: str = ""
    """Why there is no MPS server for this GPU's clients."""


def level_of(asked: Enforcement, means: Means) -> Level:
    """Return the strongest level, up to what is asked for, that can be held."""
    no_watchdog = means.no_eviction or why_unseen(means)
    if not reaches(asked, Enforcement.WATCHDOG):
        return Level(Enforcement.COOPERATIVE)
    if no_watchdog:
        return Level(Enforcement.COOPERATIVE, f"no watchdog: {no_watchdog}")
    if asked is Enforcement.WATCHDOG:
        return Level(Enforcement.WATCHDOG)
    assert means.reading is not None, "what is not read is not seen"
    no_mps = means.no_mps or why_passable(means.reading)
    return Level(Enforcement.WATCHDOG, f"no MPS: {no_mps}") if no_mps else Level(Enforcement.MPS)


def why_unseen(means: Means) -> str:
    """Return why the memory of each process on the GPU is not seen, as a clause; empty where it is."""
    return means.unread if means.reading is None else means.reading.processes_hidden


def why_passable(reading: GPUReading) -> str:
    """Return why a process could go round the MPS server, as a clause; empty where none can."""
    if reading.exclusive_process:
        return ""
    return (
        "the GPU lets processes in that go round the MPS server; set its compute mode, on the node: "
        "nvidia-smi --compute-mode EXCLUSIVE_PROCESS"
    )


def level_of_container(
    level: Level, identified: bool, pids: frozenset[int], reading: GPUReading
) -> Enforcement:
    """Return what holds for one container, whether its client is connected or not.

    Args:
        level: what is in force on its GPU.
        identified: whether its processes can be told from others'.
        pids: its processes on the GPU.
        reading: of the GPU.
    """
    if not identified or not reaches(level.enforcement, Enforcement.WATCHDOG):
        return Enforcement.NONE
    if level.enforcement is Enforcement.MPS and pids and pids <= reading.mps_pids:
        return Enforcement.MPS
    return Enforcement.WATCHDOG
