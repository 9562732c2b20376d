"""The variables by which NVIDIA's MPS holds a process to a share of its GPUs (https://docs.nvidia.com/deploy/mps/). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.api.enforcement import Enforcement
from laneway.api.inventory import InventoryGPU
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
