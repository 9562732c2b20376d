"""The quotas in a container's folder."""

from __future__ import annotations

from laneway.api.device_ids import device_id
from laneway.api.inventory import Inventory, InventoryGPU
from laneway.api.quotas_file import quotas_of, quotas_text


def a_gpu(uuid: str, memory_bytes: int, reserve_bytes: int) -> InventoryGPU:
    return InventoryGPU(
        uuid=uuid,
        index=0,
        model="",
        memory_bytes=memory_bytes,
        reserve_bytes=reserve_bytes,
        allocatable_percent=100,
        healthy=True,
        health_reason="",
    )


def test_each_gpu_has_a_line_with_its_quota() -> None:
    node = Inventory(
        node="n1", gpus=(a_gpu("GPU-b", 1000, 100), a_gpu("GPU-a", 2000, 0), a_gpu("GPU-c", 1, 0))
    )
    ids = [device_id("GPU-a", 0), device_id("GPU-a", 1), device_id("GPU-b", 0), device_id("GPU-gone", 0)]

    quotas = quotas_of(ids, node)

    assert quotas == {"GPU-a": 40, "GPU-b": 9}
    assert quotas_text(quotas) == "GPU-a 40\nGPU-b 9\n"
