"""What a checkpoint file survives: a power cut at any moment leaves the old file or the new one, complete."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from laneway.client.checkpoint.checkpoint_file import Manifest, read_checkpoint_file, write_checkpoint_file

MANIFEST = Manifest("0123abcd", 12, 0, 1)
BEFORE = {"step": 1}
AFTER = {"step": 2, "weights": list(range(1_000_000))}
"""Larger than any write buffer."""


def save(path: Path, content: Any) -> None:
    write_checkpoint_file(str(path), MANIFEST, lambda file: pickle.dump(content, file))


class Disk:
    """Records what the system is asked to flush and rename, in order, and does it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[str, ...]] = []
        self.flushed = b""
        """The content of the last flushed file at that moment."""
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


def test_the_file_is_flushed_before_it_is_renamed_and_then_the_folder(
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
    assert read_checkpoint_file(str(path), MANIFEST, pickle.load) == AFTER


def test_a_failed_flush_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError("Input/output error")

    path = tmp_path / "part"
    save(path, BEFORE)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        save(path, AFTER)
    assert os.listdir(tmp_path) == ["part"]
    assert read_checkpoint_file(str(path), MANIFEST, pickle.load) == BEFORE
