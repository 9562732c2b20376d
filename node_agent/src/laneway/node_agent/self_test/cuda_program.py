"""Calls the CUDA driver as programs do: the program of the self-test, run as a process of its own with the standard library alone.

    python -I -S cuda_program.py UUID BEYOND_BYTES LIMIT_SECONDS

It takes a few MiB of the GPU with that uuid (hexadecimal) in each way, launches an empty kernel and a graph, and frees everything.
Unless BEYOND_BYTES is 0, it also asks for that much in each way, and for the newest version of each call that takes memory or launches
work, without calling it: a library that holds the quota has replaced them all. It writes the name of each call on a line of standard output
before it makes the call. The last line is what it found, as JSON: ``total_bytes`` (the GPU's memory by cuMemGetInfo),
``beyond`` (the driver's result for each of these requests) and ``own`` (the calls that are still the driver's own). Signatures: https://docs.nvidia.com/cuda/cuda-driver-api/
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import struct
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from typing import Any, NoReturn

PIECE_BYTES = 4 << 20
"""A multiple of each driver's granularity for cuMemCreate."""

_HELD_CALLS = (
    "cuGetProcAddress",
    "cuMemGetInfo",
    "cuMemAlloc",
    "cuMemAllocPitch",
    "cuMemAllocManaged",
    "cuMemFree",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemPoolCreate",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuArrayCreate",
    "cuArray3DCreate",
    "cuArrayDestroy",
    "cuMipmappedArrayCreate",
    "cuCtxSetLimit",
    "cuGraphInstantiate",
    "cuGraphLaunch",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuLaunchCooperativeKernel",
    "cuStreamBeginCapture",
)
"""Calls by which memory is taken, told or given back, or work is launched."""

_PTX = b".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing()\n{\n    ret;\n}\n\0"
_MEMORY_POOLS, _VIRTUAL_MEMORY = 115, 102
"""Attributes of a device: whether it has them."""
_PER_THREAD_STREAMS = 2
"""A flag of cuGetProcAddress: the function for programs whose default stream is each thread's own."""

_THREAD_LOCAL = 1
"""The mode of a stream capture that other threads' calls do not end."""

_END_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

_OUT_OF_MEMORY = 2
OUT_OF_MEMORY_STATUS = 3
"""The status with which the program ends when the GPU has no memory for it, rather than 1."""


class Symbol(ctypes.Structure):
    """What dladdr(3) tells of an address."""

    _fields_ = (("file", c_char_p), ("base", c_void_p), ("name", c_char_p), ("address", c_void_p))


class Driver:
    """The functions of libcuda by their names, as ``dlsym`` finds them."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def has(self, name: str) -> bool:
        """Return whether the driver exports a function: an old one lacks some."""
        return hasattr(self._library, name)

    def attempt(self, name: str, *arguments: Any) -> int:
        """Call a function, and return its result."""
        return announced(name, getattr(self._library, name), *arguments)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that has to succeed."""
        result = self.attempt(name, *arguments)
        if result != 0:
            end(f"{name} returned {result}", result)

    def address(self, name: str, version: int) -> Any:
        """Return a function as libcudart and PyTorch find it."""
        found = c_void_p()
        self.call("cuGetProcAddress", name.encode(), byref(found), c_int(version), c_uint64(0))
        return ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t)(found.value or 0)

    def owns(self, function: c_void_p) -> bool:
        """Return whether a function is in the driver's library."""
        return _object_of(function) == _object_of(ctypes.cast(self._library.cuInit, c_void_p))


def _object_of(function: c_void_p) -> int | None:
    symbol = Symbol()
    ctypes.CDLL(None).dladdr(function, byref(symbol))
    base: int | None = symbol.base
    return base


def end(problem: str, result: int) -> NoReturn:
    """End with a problem on standard error."""
    os.write(2, f"{problem}\n".encode())
    sys.exit(OUT_OF_MEMORY_STATUS if result == _OUT_OF_MEMORY else 1)


def announced(name: str, function: Any, *arguments: Any) -> int:
    """Call a function after its name is written, so that a crash or hang is known by it."""
    os.write(1, f"{name}\n".encode())
    return int(function(*arguments))


def device_with(driver: Driver, uuid: bytes) -> int:
    """Return the number of the GPU with a uuid."""
    count, found = c_int(), ctypes.create_string_buffer(16)
    driver.call("cuDeviceGetCount", byref(count))
    for device in range(count.value):
        driver.call("cuDeviceGetUuid", found, c_int(device))
        if found.raw == uuid:
            return device
    sys.exit(f"none of the driver's {count.value} GPUs has the uuid {uuid.hex()}")


def supports(driver: Driver, attribute: int, device: int) -> bool:
    """Return whether a GPU has what an attribute names."""
    value = c_int()
    return driver.attempt(
        "cuDeviceGetAttribute", byref(value), c_int(attribute), c_int(device)
    ) == 0 and bool(value.value)


def linear(driver: Driver, size_bytes: int) -> int:
    """Take and free memory by cuMemAlloc. Return the driver's result."""
    pointer = c_uint64()
    result = driver.attempt("cuMemAlloc_v2", byref(pointer), c_size_t(size_bytes))
    if result == 0:
        driver.call("cuMemFree_v2", pointer)
    return result


def by_address(driver: Driver, size_bytes: int) -> int:
    """Take and free memory by a function that cuGetProcAddress returns. Return the driver's result."""
    pointer = c_uint64()
    allocate = driver.address("cuMemAlloc", 3020)
    result = announced("cuMemAlloc of cuGetProcAddress", allocate, byref(pointer), c_size_t(size_bytes))
    if result == 0:
        driver.call("cuMemFree_v2", pointer)
    return result


def pooled(driver: Driver, size_bytes: int, stream: c_void_p) -> int:
    """Take and free memory of a pool. Return the driver's result."""
    pointer = c_uint64()
    result = driver.attempt("cuMemAllocAsync", byref(pointer), c_size_t(size_bytes), stream)
    if result == 0:
        driver.call("cuMemFreeAsync", pointer, stream)
    driver.call("cuStreamSynchronize", stream)
    return result


def mapped(driver: Driver, size_bytes: int, device: int) -> int:
    """Take memory with a handle, map it into an address range, and free both. Return the driver's result."""
    size, handle, pointer = c_size_t(size_bytes), c_uint64(), c_uint64()
    pinned, on_device = 1, 1
    properties = struct.pack("<iiiiqq", pinned, 0, on_device, device, 0, 0)
    result = driver.attempt("cuMemCreate", byref(handle), size, properties, c_uint64(0))
    if result != 0:
        return result
    driver.call("cuMemAddressReserve", byref(pointer), size, c_size_t(0), c_uint64(0), c_uint64(0))
    driver.call("cuMemMap", pointer, size, c_size_t(0), handle, c_uint64(0))
    driver.call("cuMemUnmap", pointer, size)
    driver.call("cuMemAddressFree", pointer, size)
    driver.call("cuMemRelease", handle)
    return 0


def launch(driver: Driver, stream: c_void_p, kernel: c_void_p) -> None:
    """Launch a kernel of one thread."""
    sizes = [c_int(1)] * 6
    driver.call("cuLaunchKernel", kernel, *sizes, c_int(0), stream, None, None)


def empty_kernel(driver: Driver) -> c_void_p:
    """Return a kernel that does nothing."""
    module, kernel = c_void_p(), c_void_p()
    driver.call("cuModuleLoadData", byref(module), _PTX)
    driver.call("cuModuleGetFunction", byref(kernel), module, b"nothing")
    return kernel


def captured(driver: Driver, size_bytes: int, stream: c_void_p, kernel: c_void_p) -> int:
    """Launch a graph that takes and frees memory. Return the driver's result for the executable graph."""
    graph, executable, pointer = c_void_p(), c_void_p(), c_uint64()
    driver.call("cuStreamBeginCapture_v2", stream, c_int(_THREAD_LOCAL))
    driver.call("cuMemAllocAsync", byref(pointer), c_size_t(size_bytes), stream)
    launch(driver, stream, kernel)
    driver.call("cuMemFreeAsync", pointer, stream)
    driver.call("cuStreamEndCapture", stream, byref(graph))
    result = driver.attempt("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
    if result == 0:
        driver.call("cuGraphLaunch", executable, stream)
        driver.call("cuStreamSynchronize", stream)
        driver.call("cuGraphExecDestroy", executable)
    driver.call("cuGraphDestroy", graph)
    return result


def own_calls(driver: Driver) -> list[str]:
    """Return the calls whose newest version, as libcudart asks for it, is a function of the driver's library."""
    ask, status = "cuGetProcAddress_v2", [byref(c_int())]
    if not driver.has(ask):
        ask, status = "cuGetProcAddress", []
    version, found = c_int(), []
    driver.call("cuDriverGetVersion", byref(version))
    for name in _HELD_CALLS if driver.has(ask) else ():
        for flags in (0, _PER_THREAD_STREAMS):
            function = c_void_p()
            result = driver.attempt(ask, name.encode(), byref(function), version, c_uint64(flags), *status)
            if result == 0 and function.value is not None and driver.owns(function):
                found.append(f"{name} for CUDA {version.value // 1000}.{version.value % 1000 // 10}")
                break
    return found


def total_bytes(driver: Driver) -> int:
    """Return the GPU's memory as the driver tells it."""
    free, total = c_size_t(), c_size_t()
    driver.call("cuMemGetInfo_v2", byref(free), byref(total))
    return total.value


def exercise(driver: Driver, uuid: bytes, beyond_bytes: int) -> dict[str, Any]:
    """Use the GPU in each way. Return what was found."""
    driver.call("cuInit", c_int(0))
    device = device_with(driver, uuid)
    context, stream = c_void_p(), c_void_p()
    driver.call("cuDevicePrimaryCtxRetain", byref(context), c_int(device))
    driver.call("cuCtxSetCurrent", context)
    driver.call("cuStreamCreate", byref(stream), c_int(1))
    kernel = empty_kernel(driver)
    ways: dict[str, Any] = {"cuMemAlloc": lambda size: linear(driver, size)}
    if driver.has("cuGetProcAddress"):
        ways["cuGetProcAddress"] = lambda size: by_address(driver, size)
    if supports(driver, _VIRTUAL_MEMORY, device):
        ways["cuMemCreate"] = lambda size: mapped(driver, size, device)
    if supports(driver, _MEMORY_POOLS, device):
        ways["cuMemAllocAsync"] = lambda size: pooled(driver, size, stream)
        if driver.has("cuGraphInstantiateWithFlags"):
            ways["cuGraphInstantiate"] = lambda size: captured(driver, size, stream, kernel)
    beyond = {}
    for name, take in ways.items():
        within = take(PIECE_BYTES)
        if within != 0:
            end(f"{name} returned {within} for {PIECE_BYTES >> 20} MiB", within)
        if beyond_bytes:
            beyond[name] = take(beyond_bytes)
    launch(driver, stream, kernel)
    driver.call("cuStreamSynchronize", stream)
    total = total_bytes(driver)
    driver.call("cuStreamDestroy_v2", stream)
    driver.call("cuDevicePrimaryCtxRelease_v2", c_int(device))
    return {"total_bytes": total, "beyond": beyond, "own": own_calls(driver) if beyond_bytes else []}


def main() -> None:
    """Run with the least share of the CPU, as the first to end when memory is short, not beyond the limit, and not without the agent."""
    uuid, beyond_bytes, limit_seconds = bytes.fromhex(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    signal.alarm(limit_seconds)  # its default action ends the process wherever it is
    os.nice(19)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
    found = exercise(Driver(), uuid, beyond_bytes)
    os.write(1, f"{json.dumps(found)}\n".encode())


if __name__ == "__main__":
    try:
        main()
    except (AttributeError, OSError) as error:  # a function, or the driver's library, is missing
        sys.exit(str(error))
