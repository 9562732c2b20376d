"""``quotas`` in a container's folder: its quota of each GPU, for the memory interposer of a process that has met no agent yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from laneway.api.device_ids import shares_of
from laneway.api.inventory import Inventory
from laneway.api.quota import quota_bytes


def quotas_of(ids: Sequence[str], inventory: Inventory) -> dict[str, int]:
    """Return the bytes that ids entitle to, by the GPU's uuid; GPUs that the node no longer has are left out."""
    shares = shares_of(ids)
    return {
        gpu.uuid: quota_bytes(shares[gpu.uuid], gpu.allocatable_bytes)
        for gpu in inventory.gpus
        if gpu.uuid in shares
    }


def quotas_text(quotas: Mapping[str, int]) -> str:
    """Return the file's content: a line for each GPU, its uuid and the bytes."""
    return "".join(f"{uuid} {quotas[uuid]}\n" for uuid in sorted(quotas))
