"""The kernel's figures of this process's memory."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest
from laneway.client.memory.resident_memory import ResidentMemory

SIZE = 64 << 20
ELSE = 16 << 20
"""What the test process may allocate or free meanwhile."""


def test_the_mark_stays_until_it_is_reset() -> None:
    memory = ResidentMemory()
    memory.reset_peak()
    before = memory.bytes_now()
    assert abs(memory.highest_bytes() - before) < ELSE
    with mmap.mmap(-1, SIZE) as block:
        block.write(b"\1" * SIZE)
        assert memory.bytes_now() > before + SIZE - ELSE
    assert memory.highest_bytes() > before + SIZE - ELSE
    memory.reset_peak()
    assert memory.highest_bytes() < memory.bytes_now() + ELSE


def test_a_system_without_a_mark_raises(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="clear_refs"):
        ResidentMemory(f"{tmp_path}/nowhere").reset_peak()


def test_a_mark_that_does_not_fall_raises(tmp_path: Path) -> None:
    (tmp_path / "statm").write_bytes(b"100 0 0 0 0 0 0\n")
    with mmap.mmap(-1, 2 * SIZE) as block:
        block.write(b"\1" * (2 * SIZE))
        with pytest.raises(OSError, match="did not fall"):
            ResidentMemory(str(tmp_path)).reset_peak()
