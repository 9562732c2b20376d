"""What NVIDIA's MPS holds a process to (https://docs.nvidia.com/deploy/mps/): the variables that lower the control daemon's
limit to a share, and whether that limit is within the quota. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.api.enforcement import Enforcement
from laneway.api.inventory import InventoryGPU
from laneway.api.quantity import format_bytes
from laneway.api.quota import quota_bytes

_MEBIBYTE = 1 << 20


def mps_limits(
    gpus: Sequence[InventoryGPU], percent: int, pipe_folder: str, limit_threads: bool
) -> dict[str, str]:
    """Return the variables; none unless all of the GPUs are held by MPS.

    Args:
        gpus: those of the process, in the order in which it sees them.
        percent: of each of them.
        pipe_folder: where the process finds the control daemon's pipes.
        limit_threads: whether it gets no more of the GPUs' threads than its share.
    """
    if any(gpu.enforcement is not Enforcement.MPS for gpu in gpus):
        return {}
    quotas = (quota_bytes(percent, gpu.allocatable_bytes) for gpu in gpus)
    limits = (f"{number}={quota // _MEBIBYTE}M" for number, quota in enumerate(quotas))
    variables = {
        "CUDA_MPS_PIPE_DIRECTORY": pipe_folder,
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": ",".join(limits),
    }
    if limit_threads:
        variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(min(100, percent))
    return variables


def mps_limit_shortfall(minimum: str, limit_bytes: int, quota: int) -> str:
    """Return why MPS does not hold a container that demands it to its quota, as a clause; empty if it does.

    Args:
        minimum: the level that its pod demands; empty: none.
        limit_bytes: what the MPS control daemon limits each client to; 0: MPS is not in force, or there is no client.
        quota: the container's, in bytes.
    """
    if minimum != Enforcement.MPS.value or limit_bytes <= quota:
        return ""
    return (
        f"it demands the enforcement 'MPS', and MPS limits each process to {format_bytes(limit_bytes)}, the largest quota on its "
        f"GPU; its own is {format_bytes(quota)}: MPS holds the largest shares of a GPU only"
    )
