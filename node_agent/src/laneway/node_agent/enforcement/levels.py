"""Decides which enforcement level a GPU can have, and why no stronger one: pure.

A requested level that is not possible falls to the next lower one, with the reason; never silently.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from laneway.api.enforcement import Enforcement, reaches
from laneway.api.inventory import InventoryGPU
from laneway.node_agent.enforcement.mps_limits_file import ConfirmedLimit
from laneway.node_agent.gpus.protocol import GPUReading


@dataclass(frozen=True, slots=True)
class Level:
    """The level in force on a GPU."""

    enforcement: Enforcement
    reason: str = ""
    """Why it is lower than requested; empty if it is not."""

    interposer: bool = False
    """Containers get the memory interposer."""

    mps_limit: ConfirmedLimit | None = None
    """With level MPS: what the control daemon limits each client to."""


_FIRST_WITH_LIMITS = (7, 0)
"""Compute capability of Volta. Older GPUs have MPS without limits of memory."""

NOT_READ_YET = "the GPU has not been read yet"


@dataclass(frozen=True, slots=True)
class LevelInputs:
    """What enforcement can rely on; each text says why something is unavailable, or is empty."""

    reading: GPUReading | None
    unread: str = NOT_READ_YET
    """Why there is no reading."""

    no_eviction: str = ""
    """Why the agent stops no processes."""

    no_interposer: str = ""
    """Why containers have no memory interposer."""

    no_mps: str = ""
    """Why this GPU's clients have no MPS server, or not the limits that were set."""

    mps_limit: ConfirmedLimit | None = None
    """What the MPS control daemon reads back as the limit of each client."""


def level_of(requested: Enforcement, inputs: LevelInputs) -> Level:
    """Return the strongest possible level, up to the requested one."""
    no_watchdog = inputs.no_eviction or no_process_memory_reason(inputs)
    if not reaches(requested, Enforcement.WATCHDOG):
        return Level(Enforcement.COOPERATIVE)
    if no_watchdog:
        # A container that is allocated before the GPU has been read keeps what it gets now.
        interposer = reaches(requested, Enforcement.INTERPOSER) and not inputs.no_interposer
        return Level(Enforcement.COOPERATIVE, f"no watchdog: {no_watchdog}", interposer=interposer)
    if requested is Enforcement.WATCHDOG:
        return Level(Enforcement.WATCHDOG)
    assert inputs.reading is not None, "without a reading there is no watchdog"
    no_interposer = f"no interposer: {inputs.no_interposer}" if inputs.no_interposer else ""
    without_mps = (
        Level(Enforcement.WATCHDOG, no_interposer)
        if no_interposer
        else Level(Enforcement.INTERPOSER, interposer=True)
    )
    if requested is Enforcement.INTERPOSER:
        return without_mps
    no_mps = inputs.no_mps or no_mps_limits_reason(inputs.reading) or mps_bypass_reason(inputs.reading)
    if not no_mps:
        return Level(Enforcement.MPS, interposer=without_mps.interposer, mps_limit=inputs.mps_limit)
    return replace(without_mps, reason="; ".join(filter(None, (f"no MPS: {no_mps}", no_interposer))))


def no_process_memory_reason(inputs: LevelInputs) -> str:
    """Return why the memory of each process on the GPU is unknown, as a clause; empty if it is known."""
    return inputs.unread if inputs.reading is None else inputs.reading.processes_hidden


def no_mps_limits_reason(reading: GPUReading) -> str:
    """Return why MPS does not limit memory on a GPU, as a clause; empty if it does."""
    if reading.compute_capability is None:
        return "NVML does not report the GPU's compute capability"
    if reading.compute_capability >= _FIRST_WITH_LIMITS:
        return ""
    major, minor = reading.compute_capability
    return f"MPS limits memory from compute capability 7.0 (Volta), and the GPU has {major}.{minor}"


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
    return gpu.model_copy(
        update={
            "enforcement": level.enforcement,
            "enforcement_reason": level.reason,
            "interposer": level.interposer,
            "mps_limit_bytes": 0 if level.mps_limit is None else level.mps_limit.limit_bytes,
        }
    )


def level_of_container(
    level: Level,
    identified: bool,
    pids: frozenset[int],
    reading: GPUReading,
    interposed_pids: frozenset[int] = frozenset(),
    *,
    mps_limit_holds: bool = False,
) -> Enforcement:
    """Return the level that holds for one container, whether its client is connected or not.

    Args:
        level: the level in force on its GPU.
        identified: whether its processes can be told from others'.
        pids: its processes on the GPU.
        reading: the GPU's reading.
        interposed_pids: its processes that the interposer is loaded in.
        mps_limit_holds: whether the MPS control daemon limits each of its processes to its quota.
    """
    if not identified or not reaches(level.enforcement, Enforcement.WATCHDOG):
        return Enforcement.NONE
    is_client = level.enforcement is Enforcement.MPS and bool(pids) and pids <= reading.mps_pids
    if is_client and mps_limit_holds:
        return Enforcement.MPS
    if level.interposer and pids and pids <= interposed_pids:
        return Enforcement.INTERPOSER
    return Enforcement.WATCHDOG
