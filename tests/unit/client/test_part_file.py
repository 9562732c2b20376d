"""What a checkpoint's file outlasts: a power cut at any moment leaves the file that was there, or the new one, and all of it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from laneway.client.checkpoint.part_file import Manifest, read_part, write_part

MANIFEST = Manifest("0123abcd", 12, 0, 1)
BEFORE = {"step": 1}
AFTER = {"step": 2, "weights": list(range(1_000_000))}
"""Larger than any buffer on its way to the disk."""


def save(path: Path, content: Any) -> None:
    write_part(str(path), MANIFEST, lambda file: pickle.dump(content, file))


class Disk:
    """What the system is asked to make lasting, in order; all of it is done, too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[str, ...]] = []
        self.flushed = b""
        """What the last file held that was flushed, at that moment."""
        self._fsync, self._rename = os.fsync, os.rename
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "rename", self.rename)

    def fsync(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            self.steps.append(("flush the folder", *sorted(os.listdir(path))))
        else:
            self.flushed = path.read_bytes()
            self.steps.append(("flush", path.name))
        self._fsync(descriptor)

    def rename(self, source: str, target: str) -> None:
        self.steps.append(("rename", Path(source).name, Path(target).name))
        self._rename(source, target)


def test_all_is_written_and_flushed_before_it_gets_its_name_and_the_name_is_flushed_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "part"
    save(path, BEFORE)
    disk = Disk(monkeypatch)
    save(path, AFTER)
    assert disk.steps == [
        ("flush", "part.partial"),
        ("rename", "part.partial", "part"),
        ("flush the folder", "part"),
    ]
    assert disk.flushed == path.read_bytes(), "nothing was written after the flush, or still in a buffer"
    assert read_part(str(path), MANIFEST, pickle.load) == AFTER


def test_a_disk_that_cannot_flush_leaves_the_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError("Input/output error")

    path = tmp_path / "part"
    save(path, BEFORE)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        save(path, AFTER)
    assert os.listdir(tmp_path) == ["part"]
    assert read_part(str(path), MANIFEST, pickle.load) == BEFORE
