"""The interposer's account beside the driver's own figures, for each allocator: how many bytes they are apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.gpu.driver_container import driver_container
from tests.support.gpu.workstation import Workstation
from tests.support.isolation.allocators import ALLOCATORS
from tests.support.isolation.container import OK, Container
from tests.support.isolation.fake_devices import MIB

PIECE_BYTES = 64 * MIB
PYTORCH_BYTES = 1024 * MIB
PYTORCH = {
    "PyTorch": "",
    "PyTorch, expandable segments": "expandable_segments:True",
    "PyTorch, cudaMallocAsync": "backend:cudaMallocAsync",
}
"""By allocator, its `PYTORCH_CUDA_ALLOC_CONF`."""


def measure(device: str) -> dict[str, Any]:
    """Return for each allocator what was asked for, what the account has, and by how much the driver's used memory grew.

    Args:
        device: `cuda`, or `cpu` for a fake driver.
    """
    with Workstation(device) as workstation:
        with driver_container(workstation, "account", 4 * PIECE_BYTES) as container:
            before_bytes = container.device.used
            program = container.start()
            context_bytes = container.device.used - before_bytes
            program.end()
            rows = [_row(container, name, device) for name in ALLOCATORS]
        if device == "cuda":
            rows += _pytorch_rows(workstation)
    return {"context_bytes": context_bytes, "allocators": rows}


def _row(container: Container, name: str, device: str) -> dict[str, Any]:
    allocate, free = ALLOCATORS[name]
    program = container.start()
    try:
        # The first allocation of a kind may bring memory of the driver's own.
        result, pointer = allocate(program, PIECE_BYTES)
        assert result == OK, f"{name} failed with CUresult {result}"
        assert free(program, pointer) == OK
        before = container.charged, container.device.used
        result, pointer = allocate(program, PIECE_BYTES)
        assert result == OK, f"{name} failed with CUresult {result}"
        if name == "cuMemAllocManaged" and device == "cuda":
            # Managed memory is on the GPU once a kernel or a memset has touched it there.
            assert program.call("cuMemsetD8_v2", pointer, 0, PIECE_BYTES) == [OK]
            assert program.call("cuCtxSynchronize") == [OK]
        return _figures(name, PIECE_BYTES, before, (container.charged, container.device.used))
    finally:
        program.end()


def _pytorch_rows(workstation: Workstation) -> Iterator[dict[str, Any]]:
    for number, (name, options) in enumerate(PYTORCH.items()):
        with driver_container(workstation, f"pytorch-{number}", 4 * PYTORCH_BYTES) as container:
            variables = {"LD_PRELOAD": str(container.interposer), "PYTORCH_CUDA_ALLOC_CONF": options}
            worker = workstation.plain(f"pytorch-{number}", **variables)
            try:
                worker.do("hold", size_bytes=PIECE_BYTES)
                before = container.charged, container.device.used
                worker.do("hold", size_bytes=PYTORCH_BYTES)
                yield _figures(name, PYTORCH_BYTES, before, (container.charged, container.device.used))
            finally:
                worker.end()


def _figures(name: str, asked_bytes: int, before: tuple[int, int], after: tuple[int, int]) -> dict[str, Any]:
    account_bytes, driver_bytes = (then - first for first, then in zip(before, after, strict=True))
    return {
        "allocator": name,
        "asked_bytes": asked_bytes,
        "account_bytes": account_bytes,
        "driver_bytes": driver_bytes,
        "error_bytes": driver_bytes - account_bytes,
    }
