"""A container without a container runtime: GPUs, the account of its quota, and programs that run with the interposer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.support.account_server import AccountServer
from tests.support.isolation.building import PROGRAMS
from tests.support.isolation.fake_devices import MIB

OUT = "out"
OK, OUT_OF_MEMORY = 0, 2
QUOTA = 100 * MIB


class Device(Protocol):
    """A GPU, real or fake."""

    @property
    def name(self) -> str:
        """NVML's: `GPU-` and hexadecimal digits."""

    @property
    def uuid(self) -> bytes:
        """Its 16 bytes of cuDeviceGetUuid."""

    @property
    def used(self) -> int:
        """Bytes in use, as the driver tells."""


@dataclass
class Container:
    """What a container of the device plugin has, without the container."""

    devices: Sequence[Device]
    account: AccountServer
    interposer: Path
    variables: Mapping[str, str]
    """Those by which a program finds the driver and its GPUs."""

    @property
    def device(self) -> Device:
        return self.devices[0]

    @property
    def quota(self) -> int:
        """Bytes of the first device."""
        return self.account.quotas[self.device.uuid]

    @property
    def charged(self) -> int:
        """Bytes in the account, on the first device."""
        return self.account.used(self.device.uuid)

    def environment(self, **changes: str | None) -> dict[str, str]:
        """The environment of a program; None removes a variable."""
        values: dict[str, str | None] = {
            "PATH": os.environ["PATH"],
            "LD_PRELOAD": str(self.interposer),
            **self.variables,
            **changes,
        }
        return {name: value for name, value in values.items() if value is not None}

    def run(self, *command: str | Path, **changes: str | None) -> list[int]:
        """Runs a program to its end; returns the numbers that it printed."""
        done = subprocess.run(
            [str(part) for part in command],
            env=self.environment(**changes),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}"
        return [int(word) for word in done.stdout.split()]

    @contextmanager
    def running(self, *command: str | Path, **changes: str | None) -> Iterator[int]:
        """Runs a program that prints a number and waits for the end of its input, which comes with the block's; returns the
        number."""
        with subprocess.Popen(
            [str(part) for part in command],
            env=self.environment(**changes),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, f"{command} ended with status {process.wait()}"
            yield int(line)
            process.communicate()
        assert process.returncode == 0, f"{command}: status {process.returncode}"

    def start(self, **changes: str | None) -> Interpreter:
        """Starts a Python program that calls the driver as it is told, with a context on the first device."""
        interpreter = self.start_without_cuda(**changes)
        assert interpreter.do("use_first_device") == [OK, OK, OK]
        return interpreter

    def start_without_cuda(self, **changes: str | None) -> Interpreter:
        """Starts such a program that has not called the driver yet."""
        return Interpreter([sys.executable, str(PROGRAMS / "interpreter.py")], self.environment(**changes))


class Interpreter:
    """A running `programs/interpreter.py`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, action: str, *arguments: Any) -> list[Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([action, *arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the program ended with status {self.process.wait()}"
        answer: list[Any] = json.loads(line)
        return answer

    def call(self, name: str, *arguments: Any) -> list[Any]:
        return self.do("call", name, *arguments)

    def allocate(self, size: int) -> list[Any]:
        return self.call("cuMemAlloc_v2", OUT, size)

    def free(self, pointer: int) -> int:
        result: int = self.call("cuMemFree_v2", pointer)[0]
        return result

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
