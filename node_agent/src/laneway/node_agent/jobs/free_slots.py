"""Chooses the GPU and the device ids for a job: pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from laneway.api.device_ids import device_id
from laneway.api.inventory import InventoryGPU
from laneway.node_agent.jobs.errors import JobError


def choose_ids(
    gpus: Sequence[InventoryGPU], held: Collection[str], percent: int, wanted: str = ""
) -> tuple[str, ...]:
    """Return ids of the fullest GPU that still holds the share (best fit), so that large parts stay free.

    Args:
        gpus: the machine's GPUs.
        held: ids that other jobs hold.
        percent: the share of one GPU.
        wanted: uuid or index of the only acceptable GPU; empty: any.

    Raises:
        JobError: there is no such GPU, or none has enough free.
    """
    named = [gpu for gpu in gpus if wanted in ("", gpu.uuid, str(gpu.index))]
    if not named:
        known = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus)
        raise JobError(f"there is no GPU {wanted} here: write one of {known}")
    free = {gpu.uuid: _free_ids(gpu, held) for gpu in named}
    fitting = [gpu for gpu in named if gpu.healthy and len(free[gpu.uuid]) >= percent]
    if not fitting:
        raise JobError(f"no GPU has {percent} % free: {'; '.join(_why_not(gpu, free) for gpu in named)}")
    chosen = min(fitting, key=lambda gpu: (len(free[gpu.uuid]), gpu.index))
    return free[chosen.uuid][:percent]


def _free_ids(gpu: InventoryGPU, held: Collection[str]) -> tuple[str, ...]:
    ids = (device_id(gpu.uuid, slot) for slot in range(gpu.allocatable_percent))
    return tuple(each for each in ids if each not in held)


def _why_not(gpu: InventoryGPU, free: dict[str, tuple[str, ...]]) -> str:
    if not gpu.healthy:
        return f"GPU {gpu.index} is unhealthy ({gpu.health_reason or 'no reason given'})"
    return f"GPU {gpu.index} has {len(free[gpu.uuid])} % free"
