"""Decides which enforcement level a GPU can have, and why no stronger one: pure.

A requested level that is not possible falls to the next lower one, with the reason; never silently.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneway.api.enforcement import Enforcement, reaches
from laneway.api.inventory import InventoryGPU
from laneway.node_agent.gpus.protocol import GPUReading


@dataclass(frozen=True, slots=True)
class Level:
    """The level in force on a GPU."""

    enforcement: Enforcement
    reason: str = ""
    """Why it is lower than requested; empty if it is not."""


NOT_READ_YET = "the GPU has not been read yet"


@dataclass(frozen=True, slots=True)
class LevelInputs:
    """What enforcement can rely on; each text says why something is unavailable, or is empty."""

    reading: GPUReading | None
    unread: str = NOT_READ_YET
    """Why there is no reading."""

    no_eviction: str = ""
    """Why the agent stops no processes."""

    no_mps: str = ""
    """Why this GPU's clients have no MPS server."""


def level_of(requested: Enforcement, inputs: LevelInputs) -> Level:
    """Return the strongest possible level, up to the requested one."""
    no_watchdog = inputs.no_eviction or no_process_memory_reason(inputs)
    if not reaches(requested, Enforcement.WATCHDOG):
        return Level(Enforcement.COOPERATIVE)
    if no_watchdog:
        return Level(Enforcement.COOPERATIVE, f"no watchdog: {no_watchdog}")
    if requested is Enforcement.WATCHDOG:
        return Level(Enforcement.WATCHDOG)
    assert inputs.reading is not None, "without a reading there is no watchdog"
    no_mps = inputs.no_mps or mps_bypass_reason(inputs.reading)
    return Level(Enforcement.WATCHDOG, f"no MPS: {no_mps}") if no_mps else Level(Enforcement.MPS)


def no_process_memory_reason(inputs: LevelInputs) -> str:
    """Return why the memory of each process on the GPU is unknown, as a clause; empty if it is known."""
    return inputs.unread if inputs.reading is None else inputs.reading.processes_hidden


def mps_bypass_reason(reading: GPUReading) -> str:
    """Return why a process could bypass the MPS server, as a clause; empty if none can."""
    if reading.exclusive_process:
        return ""
    return (
        "the GPU accepts processes that bypass the MPS server; set its compute mode on the node: "
        "nvidia-smi --compute-mode EXCLUSIVE_PROCESS"
    )


def with_level(gpu: InventoryGPU, level: Level) -> InventoryGPU:
    """Return a GPU with the enforcement level in force on it."""
    return gpu.model_copy(update={"enforcement": level.enforcement, "enforcement_reason": level.reason})


def level_of_container(
    level: Level, identified: bool, pids: frozenset[int], reading: GPUReading
) -> Enforcement:
    """Return the level that holds for one container, whether its client is connected or not.

    Args:
        level: the level in force on its GPU.
        identified: whether its processes can be told from others'.
        pids: its processes on the GPU.
        reading: the GPU's reading.
    """
    if not identified or not reaches(level.enforcement, Enforcement.WATCHDOG):
        return Enforcement.NONE
    if level.enforcement is Enforcement.MPS and pids and pids <= reading.mps_pids:
        return Enforcement.MPS
    return Enforcement.WATCHDOG
