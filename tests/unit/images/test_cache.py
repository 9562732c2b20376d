"""An entry of the cache is there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hack.images.cache import PARTIAL_PREFIX, entry, keep_newest


def test_an_entry_is_made_once(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(path: Path) -> None:
        made.append(path)
        path.write_text("content", encoding="utf-8")

    assert entry(tmp_path, "a-1", make) == entry(tmp_path, "a-1", make) == tmp_path / "a-1"
    assert len(made) == 1
    assert made[0].name == f"{PARTIAL_PREFIX}a-1"


def test_a_failed_one_leaves_no_entry_and_the_next_one_clears_what_it_left(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.mkdir()
        (path / "half").touch()
        raise RuntimeError("interrupted")

    def make(path: Path) -> None:
        assert not list(tmp_path.glob(f"{PARTIAL_PREFIX}*"))
        path.mkdir()

    with pytest.raises(RuntimeError, match="interrupted"):
        entry(tmp_path, "a-1", fail)
    assert not (tmp_path / "a-1").exists()
    assert list(entry(tmp_path, "a-1", make).iterdir()) == []


def test_the_newest_are_kept(tmp_path: Path) -> None:
    for age, name in enumerate(("a-new.tar", "a-middle.tar", "a-old.tar", "b-oldest.tar")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    keep_newest(tmp_path, "a-*.tar", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-middle.tar", "a-new.tar", "b-oldest.tar"]
