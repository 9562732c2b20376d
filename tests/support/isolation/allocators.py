"""The ways in which the CUDA driver gives memory, for a program that calls it as it is told: see `programs/interpreter.py`."""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.support.isolation.container import OK, OUT, Interpreter

Allocator = Callable[[Interpreter, int], "tuple[int, int]"]
"""Asks for bytes; returns the result and a pointer or handle. Sizes are multiples of 8192; arrays hold at most 128 MiB, because
a GPU limits their height."""

Free = Callable[[Interpreter, int], int]
"""Gives it back, and waits until the driver has it."""


def hexadecimal(form: str, *values: int) -> str:
    return "x" + struct.pack(f"<{form}", *values).hex()


def simple(name: str, *rest: int) -> Allocator:
    def allocate(program: Interpreter, size: int) -> tuple[int, int]:
        result, pointer = program.call(name, OUT, size, *rest)
        return result, pointer

    return allocate


def pitched(program: Interpreter, size: int) -> tuple[int, int]:
    # 1 byte more than half of the pitch: the padding is what the driver adds.
    result, pointer, _ = program.call("cuMemAllocPitch_v2", OUT, OUT, 257, size // 512, 4)
    return result, pointer


def created(program: Interpreter, size: int) -> tuple[int, int]:
    result, handle, _ = program.call("cuMemCreate", OUT, size, hexadecimal("iiiiqq", 1, 0, 1, 0, 0, 0), 0)
    return result, handle


def array(program: Interpreter, size: int) -> tuple[int, int]:
    result, pointer, _ = program.call(
        "cuArrayCreate_v2", OUT, hexadecimal("QQiI", 1024, size // 4096, 0x20, 1)
    )
    return result, pointer


def array_3d(program: Interpreter, size: int) -> tuple[int, int]:
    description = hexadecimal("QQQiII", 1024, size // 8192, 2, 0x10, 2, 0)
    result, pointer, _ = program.call("cuArray3DCreate_v2", OUT, description)
    return result, pointer


def mipmapped(program: Interpreter, size: int) -> tuple[int, int]:
    description = hexadecimal("QQQiII", 1024, size // 4096, 0, 0x20, 1, 0)
    result, pointer, _ = program.call("cuMipmappedArrayCreate", OUT, description, 1)
    return result, pointer


def freed_by(name: str, *rest: int) -> Free:
    def free(program: Interpreter, pointer: int) -> int:
        result: int = program.call(name, pointer, *rest)[0]
        return result or int(program.call("cuCtxSynchronize")[0])

    return free


FREE, FREE_ARRAY = freed_by("cuMemFree_v2"), freed_by("cuArrayDestroy")

ALLOCATORS: dict[str, tuple[Allocator, Free]] = {
    "cuMemAlloc": (simple("cuMemAlloc_v2"), FREE),
    "cuMemAllocManaged": (simple("cuMemAllocManaged", 1), FREE),
    "cuMemAllocPitch": (pitched, FREE),
    "cuMemAllocAsync": (simple("cuMemAllocAsync", 0), freed_by("cuMemFreeAsync", 0)),
    "cuMemAllocAsync_ptsz": (simple("cuMemAllocAsync_ptsz", 0), freed_by("cuMemFreeAsync_ptsz", 0)),
    "cuMemAllocAsync, freed by cuMemFree": (simple("cuMemAllocAsync", 0), FREE),
    "cuMemCreate": (created, freed_by("cuMemRelease")),
    "cuArrayCreate": (array, FREE_ARRAY),
    "cuArray3DCreate": (array_3d, FREE_ARRAY),
    "cuMipmappedArrayCreate": (mipmapped, freed_by("cuMipmappedArrayDestroy")),
}


def graph_of(program: Interpreter, size: int, freed: bool = False) -> int:
    """A graph that allocates, and with `freed` frees what it has allocated."""
    graph, address = graph_with_address(program, size)
    if freed:
        assert program.call("cuGraphAddMemFreeNode", OUT, graph, 0, 0, address)[0] == OK
    return graph


def graph_with_address(program: Interpreter, size: int) -> tuple[int, int]:
    """A graph that allocates, and the address of what it allocates."""
    graph: int = program.call("cuGraphCreate", OUT, 0)[1]
    parameters = hexadecimal("iiii", 1, 0, 1, 0) + "00" * 72 + struct.pack("<QQQQ", 0, 0, size, 0).hex()
    result, _, answer = program.call("cuGraphAddMemAllocNode", OUT, graph, 0, 0, parameters)
    assert result == OK
    return graph, int.from_bytes(bytes.fromhex(answer)[112:120], "little")
