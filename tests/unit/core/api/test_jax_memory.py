"""How much of its GPUs' memory JAX reserves in a container."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.api.inventory import InventoryGPU
from laneway.api.jax_memory import jax_memory
from laneway.api.quota import quota_bytes

GIB = 1 << 30
NAME = "XLA_PYTHON_CLIENT_MEM_FRACTION"


def gpu(memory_bytes: int = 80 * GIB, **more: Any) -> InventoryGPU:
    fields: dict[str, Any] = {
        "uuid": "GPU-1",
        "index": 0,
        "model": "H100",
        "memory_bytes": memory_bytes,
        "reserve_bytes": 0,
        "allocatable_percent": 100,
        "healthy": True,
        "simulated": False,
    }
    return InventoryGPU(**(fields | more))


@pytest.mark.parametrize(
    ("gpus", "percent", "framework_gib", "wanted"),
    [
        ([gpu()], 50, 0, "0.5000"),
        ([gpu()], 50, 8, "0.4000"),
        ([gpu()], 150, 8, "0.9000"),
        ([gpu(), gpu(40 * GIB)], 100, 8, "0.8000"),
        ([gpu(enforcement="MPS")], 50, 8, "0.8000"),
        ([gpu(enforcement="Interposer", interposer=True)], 50, 8, "0.8000"),
        ([gpu(), gpu(simulated=True)], 50, 0, "0.5000"),
        ([gpu()], 10, 8, None),
        ([gpu(simulated=True)], 50, 0, None),
    ],
    ids=[
        "a half",
        "less the framework's memory",
        "no more than the GPU",
        "the smallest GPU decides",
        "MPS shows the limit as the memory",
        "so does the memory interposer",
        "simulated GPUs do not count",
        "nothing is left",
        "no real GPU",
    ],
)
def test_jax_reserves_the_quota(
    gpus: list[InventoryGPU], percent: int, framework_gib: int, wanted: str | None
) -> None:
    assert jax_memory(gpus, percent, framework_gib * GIB) == ({NAME: wanted} if wanted else {})


@given(st.integers(1, 200), st.integers(1 << 20, 200 * GIB), st.integers(0, GIB), st.integers(0, GIB))
def test_it_never_reserves_more_than_the_quota(
    percent: int, memory: int, reserve: int, framework: int
) -> None:
    device = gpu(memory, reserve_bytes=min(reserve, memory))
    for fraction in jax_memory([device], percent, framework).values():
        assert (
            float(fraction) * memory
            <= quota_bytes(percent, device.allocatable_bytes) - framework + 1e-6 * memory
        )
