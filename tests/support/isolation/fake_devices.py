"""The device files of the fake driver: fake_driver/fake_driver.h has their layout."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

_HEADER = struct.Struct("<16sQ")
_PROCESS = struct.Struct("<qQ")
_MOST_PROCESSES = 1024
MIB = 1 << 20


@dataclass(frozen=True)
class FakeDevice:
    """One device: the memory that it holds is what a real driver's table of processes would show."""

    file: Path
    uuid: bytes

    @property
    def name(self) -> str:
        """NVML's name of the device."""
        digits = self.uuid.hex()
        return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def held(self) -> dict[int, int]:
        """Bytes by process, of those that live."""
        content = self.file.read_bytes()
        processes = [
            _PROCESS.unpack_from(content, _HEADER.size + i * _PROCESS.size) for i in range(_MOST_PROCESSES)
        ]
        return {pid: size for pid, size in processes if pid and size and _is_alive(pid)}

    @property
    def used(self) -> int:
        return sum(self.held().values())


def make_device(folder: Path, index: int, total_bytes: int, uuid: bytes = b"") -> FakeDevice:
    """Make a device's file; without a uuid it gets one of its own."""
    uuid = uuid or bytes((index + 1) * 16 + i for i in range(16))
    file = folder / f"device{index}"
    file.write_bytes(_HEADER.pack(uuid, total_bytes) + bytes(_MOST_PROCESSES * _PROCESS.size))
    return FakeDevice(file, uuid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
