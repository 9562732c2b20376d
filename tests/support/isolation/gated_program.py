"""Programs in containers that launch kernels on a fake device, through the interposer and its launch gate."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from tests.support.isolation.building import fake_driver_variables, program, shipped_interposer
from tests.support.node_agent.driven_process import DrivenProcess
from tests.support.node_agent.node import Container, enter

_KERNEL = struct.Struct("<qqq")
Kernel = tuple[int, int, int]
"""Process, begin and end, in ns."""


class KernelLog:
    """The kernels that ran on a fake device, of all processes."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "kernels"
        self.file.touch()

    def kernels(self) -> list[Kernel]:
        """Return the process, the begin and the end (CLOCK_MONOTONIC, ns) of each kernel, by its begin."""
        content = self.file.read_bytes()
        whole = len(content) // _KERNEL.size * _KERNEL.size
        return sorted(_KERNEL.iter_unpack(content[:whole]), key=lambda kernel: kernel[1])

    def of(self, pid: int) -> int:
        """Return how many kernels of a process were launched."""
        return sum(kernel[0] == pid for kernel in self.kernels())

    def overlaps(self, from_ns: int = 0) -> list[tuple[Kernel, Kernel]]:
        """Return pairs of kernels of different processes that ran at the same time, and ended after a time."""
        return overlapping_kernels(self.kernels(), from_ns)


def overlapping_kernels(kernels: Sequence[Kernel], from_ns: int = 0) -> list[tuple[Kernel, Kernel]]:
    """Return pairs of kernels of different processes that ran at the same time, and ended after a time.

    Args:
        kernels: process, begin and end of each, by the begin.
        from_ns: the time.
    """
    found = []
    latest: dict[int, Kernel] = {}
    for kernel in kernels:
        pid, begin, end = kernel
        if end > from_ns:
            found += [
                (other, kernel)
                for of, other in latest.items()
                if of != pid and other[2] > max(begin, from_ns)
            ]
        if pid not in latest or latest[pid][2] < end:
            latest[pid] = kernel
    return found


class GatedProgram(DrivenProcess):
    """`tests/isolation/programs/launching.c`, or another program of its protocol, in a container."""

    def __init__(self, container: Container, devices: Path, *command: str | Path) -> None:
        """Start it without waiting.

        Args:
            container: where.
            devices: the folder of the fake devices.
            command: another program; its first line of output has its pid.
        """
        self.container = container
        environment = {"LD_PRELOAD": str(shipped_interposer()), **fake_driver_variables(devices)}
        inside = ["env", *(f"{name}={value}" for name, value in environment.items())]
        super().__init__([*enter(container.await_socket()), *inside, *(command or (program("launching"),))])

    def do(self, command: str, argument: int = 0, seconds: float = 60) -> int:
        """Have a command done; returns how many launches have succeeded since the start."""
        self.start(command, argument)
        return int(self.answer(seconds)["launched"])

    def start(self, command: str, argument: int = 0) -> None:
        self.command(f"{command} {argument}")

    def finish(self, seconds: float = 60) -> int:
        return int(self.answer(seconds)["launched"])
