"""The kernel's figures of this process's memory."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest
from laneway.client.resident_memory import ResidentMemory

SIZE = 64 << 20
ELSE = 16 << 20
"""What the test's process may come by or lose meanwhile."""


def test_the_mark_stays_high_until_it_is_restarted() -> None:
    memory = ResidentMemory()
    memory.restart()
    before = memory.bytes_now()
    assert abs(memory.highest_bytes() - before) < ELSE
    with mmap.mmap(-1, SIZE) as block:
        block.write(b"\1" * SIZE)
        assert memory.bytes_now() > before + SIZE - ELSE
    assert memory.highest_bytes() > before + SIZE - ELSE
    memory.restart()
    assert memory.highest_bytes() < memory.bytes_now() + ELSE


def test_a_system_without_a_mark_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="clear_refs"):
        ResidentMemory(f"{tmp_path}/nowhere").restart()


def test_a_mark_that_does_not_fall_is_none(tmp_path: Path) -> None:
    (tmp_path / "statm").write_bytes(b"100 0 0 0 0 0 0\n")
    with mmap.mmap(-1, 2 * SIZE) as block:
        block.write(b"\1" * (2 * SIZE))
        with pytest.raises(OSError, match="did not fall"):
            ResidentMemory(str(tmp_path)).restart()
