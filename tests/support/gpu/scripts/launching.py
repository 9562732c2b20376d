"""A program without PyTorch that launches kernels through the driver, as it is told: one JSON object a line on standard input, one
answer a line on standard output.

    {"do": "run", "microseconds": 300}         launches kernels of this length until "stop"; it waits for each fourth, as for a result;
                                               with "gap_seconds" it pauses between launches
    {"do": "once", "microseconds": 300}        launches one
    {"do": "capture", "microseconds": 300}     from now on "run" launches a captured graph of two such kernels
    {"do": "burst", "launches": 500, "microseconds": 10}    the nanoseconds of the launches, and until their kernels have run
    {"do": "hold", "size_bytes": 1000000}      takes memory and keeps it
    {"do": "kernels"}                          begin and end of the kernels that have run, in ns

Its first line says that it is there. It ends with its standard input.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

POINTER = ctypes.c_void_p
RECORDS = 16384
"""As in spin.ptx."""


class DriverError(Exception):
    """A call of the driver failed."""


class Driver:
    """Calls the driver's functions by name."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: Any) -> None:
        result = getattr(self.cuda, name)(*arguments)
        if result:
            raise DriverError(f"{name} failed with CUresult {result}")

    def get(self, name: str, *arguments: Any) -> POINTER:
        """Return what the function writes to its first argument."""
        made = POINTER()
        self.call(name, ctypes.byref(made), *arguments)
        return made


class SpinKernels:
    """Kernels of a real GPU, which the driver compiles from PTX."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        text = Path(__file__).with_name("spin.ptx").read_bytes()
        self.function = driver.get(
            "cuModuleGetFunction", driver.get("cuModuleLoadData", ctypes.c_char_p(text)), b"spin"
        )
        self.size = 16 + 16 * RECORDS
        self.records = driver.get("cuMemAlloc_v2", ctypes.c_size_t(self.size))
        driver.call("cuMemsetD8_v2", self.records, ctypes.c_ubyte(0), ctypes.c_size_t(self.size))

    def launch(self, microseconds: int, stream: POINTER) -> None:
        nanoseconds, records = ctypes.c_uint64(1000 * microseconds), ctypes.c_uint64(self.records.value or 0)
        values = (POINTER * 2)(ctypes.addressof(nanoseconds), ctypes.addressof(records))
        self.driver.call("cuLaunchKernel", self.function, 1, 1, 1, 1, 1, 1, 0, stream, values, None)

    def ran(self) -> list[tuple[int, int]]:
        content = ctypes.create_string_buffer(self.size)
        self.driver.call("cuMemcpyDtoH_v2", content, self.records, ctypes.c_size_t(self.size))
        (count,) = struct.unpack_from("<Q", content)
        pairs = list(struct.iter_unpack("<QQ", content.raw[16:]))[: min(count, RECORDS)]
        return sorted((begin, end) for begin, end in pairs)


class FakeKernels:
    """Kernels of `tests/isolation/fake_driver`: a function is the microseconds that it runs."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.log = Path(os.environ["FAKE_CUDA_DEVICES"]) / "kernels"

    def launch(self, microseconds: int, stream: POINTER) -> None:
        self.driver.call("cuLaunchKernel", POINTER(microseconds), 1, 1, 1, 1, 1, 1, 0, stream, None, None)

    def ran(self) -> list[tuple[int, int]]:
        content = self.log.read_bytes()
        whole = struct.iter_unpack("<qqq", content[: len(content) // 24 * 24])
        return sorted((begin, end) for pid, begin, end in whole if pid == os.getpid())


class Launching:
    """The program."""

    def __init__(self, options: argparse.Namespace) -> None:
        driver = self.driver = Driver()
        driver.call("cuInit", 0)
        self.context = driver.get("cuDevicePrimaryCtxRetain", 0)
        driver.call("cuCtxSetCurrent", self.context)
        self.stream = driver.get("cuStreamCreate", 0)
        self.kernels_of = SpinKernels(driver) if options.device == "cuda" else FakeKernels(driver)
        self.graph: POINTER | None = None
        self.running = threading.Event()
        self.thread: threading.Thread | None = None
        self.launched = 0
        self.computes = options.simulated_kernels

    def run(self, microseconds: int, gap_seconds: float = 0.0) -> dict[str, Any]:
        self.running.set()
        self.thread = threading.Thread(target=self._launch_again, args=(microseconds, gap_seconds))
        self.thread.start()
        return {}

    def _launch_again(self, microseconds: int, gap_seconds: float) -> None:
        self.driver.call("cuCtxSetCurrent", self.context)
        seen = _SimulatedWork(self.computes) if self.computes else None
        for count in itertools.count(1):
            if not self.running.is_set():
                break
            if self.graph is None:
                self.kernels_of.launch(microseconds, self.stream)
            else:
                self.driver.call("cuGraphLaunch", self.graph, self.stream)
            self.launched += 1
            if count % 4 == 0:
                self.driver.call("cuStreamSynchronize", self.stream)
            if seen is not None:
                seen.run()
            time.sleep(gap_seconds)

    def stop(self) -> dict[str, Any]:
        self.running.clear()
        assert self.thread is not None, "nothing runs"
        self.thread.join()
        self.driver.call("cuCtxSynchronize")
        return {"launched": self.launched}

    def once(self, microseconds: int) -> dict[str, Any]:
        self.kernels_of.launch(microseconds, self.stream)
        self.launched += 1
        return {"launched": self.launched}

    def capture(self, microseconds: int) -> dict[str, Any]:
        self.driver.call("cuStreamBeginCapture_v2", self.stream, 0)
        for _ in range(2):
            self.kernels_of.launch(microseconds, self.stream)
        graph = POINTER()
        self.driver.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        self.graph = self.driver.get("cuGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
        return {}

    def burst(self, launches: int, microseconds: int) -> dict[str, Any]:
        began_ns = time.monotonic_ns()
        for _ in range(launches):
            self.kernels_of.launch(microseconds, self.stream)
        launched_ns = time.monotonic_ns()
        self.driver.call("cuStreamSynchronize", self.stream)
        return {"launch_ns": launched_ns - began_ns, "done_ns": time.monotonic_ns() - began_ns}

    def hold(self, size_bytes: int) -> dict[str, Any]:
        self.driver.get("cuMemAlloc_v2", ctypes.c_size_t(size_bytes))
        return {}

    def kernels(self) -> dict[str, Any]:
        return {"kernels": self.kernels_of.ran()}


class _SimulatedWork:
    """Tells an agent with simulated GPUs that the process computes; a real driver samples it."""

    def __init__(self, folder: str) -> None:
        from tests.support.node_agent.simulated_device import SimulatedDevice

        self.device = SimulatedDevice(Path.cwd() / "own-device", Path(folder))

    def run(self) -> None:
        self.device.run(0.05)


def _end(failed: threading.ExceptHookArgs) -> None:
    """End the program where one of its threads fails."""
    sys.excepthook(failed.exc_type, failed.exc_value or failed.exc_type(), failed.exc_traceback)
    os._exit(1)


def main() -> None:
    threading.excepthook = _end
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument(
        "--simulated-kernels", default="", help="the agent's folder of a simulated GPU's processes"
    )
    program = Launching(parser.parse_args())
    print(json.dumps({"pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(program, command.pop("do"))(**command)), flush=True)


if __name__ == "__main__":
    main()
