"""The variable by which JAX's allocator reserves no more than a share of its GPUs. Pure.

JAX reserves this fraction of a GPU's memory at its start, and 75 % without it
(https://docs.jax.dev/en/latest/gpu_memory_allocation.html).
"""

from __future__ import annotations

from collections.abc import Sequence

from laneway.api.enforcement import Enforcement
from laneway.api.inventory import InventoryGPU
from laneway.api.quota import quota_bytes

_PARTS = 10_000
"""Four digits: 8 MiB of 80 GiB."""


def jax_memory(gpus: Sequence[InventoryGPU], percent: int, framework_bytes: int) -> dict[str, str]:
    """Return the variable; nothing for simulated GPUs, or if the quota leaves nothing beside the framework's own memory.

    Args:
        gpus: those of the process.
        percent: of each of them.
        framework_bytes: the part of the quota that is for the framework's own memory, such as CUDA contexts.
    """
    real = [gpu for gpu in gpus if not gpu.simulated]
    under_mps = all(gpu.enforcement is Enforcement.MPS for gpu in gpus)
    parts = []
    for gpu in real:
        quota = quota_bytes(percent, gpu.allocatable_bytes)
        # A client of MPS, and a process with the memory interposer, see their own limit as the GPU's memory.
        visible_bytes = quota if under_mps or gpu.interposer else gpu.memory_bytes
        parts.append(max(0, quota - framework_bytes) * _PARTS // visible_bytes if visible_bytes else 0)
    fraction = min(parts, default=0) / _PARTS
    return {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{fraction:.4f}"} if fraction else {}
