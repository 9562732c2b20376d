"""The containers' folders."""

from __future__ import annotations

from pathlib import Path

from laneway.device_plugin.container_folders import ContainerFolders
from laneway.device_plugin.kubelet_records import Holder
from laneway.device_plugin.share_manager import record_of

from tests.unit.device_plugin.builders import ids, pod

KEY = "0123456789abcdef"
RECORD = record_of(Holder("default", "a", "trainer", frozenset(ids(0, range(50)))), pod("a"))


def test_a_record_is_read_back_as_written(tmp_path: Path) -> None:
    folders = ContainerFolders(tmp_path / "containers")

    assert folders.write(RECORD) is True
    assert folders.write(RECORD) is False
    assert folders.record(RECORD.key) == RECORD
    assert folders.keys() == [RECORD.key]
    assert sorted(file.name for file in folders.path(RECORD.key).iterdir()) == ["container.json"]


def test_a_record_that_cannot_be_read_is_written_anew(tmp_path: Path) -> None:
    folders = ContainerFolders(tmp_path)
    folders.ensure(RECORD.key)
    (folders.path(RECORD.key) / "container.json").write_text('{"version": 1')

    assert folders.record(RECORD.key) is None
    assert folders.write(RECORD) is True
    assert folders.record(RECORD.key) == RECORD


def test_what_a_dead_container_left_is_gone_for_the_next_one_with_the_same_ids(tmp_path: Path) -> None:
    folders = ContainerFolders(tmp_path)
    folders.write(RECORD)
    (folders.path(RECORD.key) / "left").mkdir()

    folders.make_fresh(RECORD.key)

    assert list(folders.path(RECORD.key).iterdir()) == []
    assert [entry.name for entry in tmp_path.iterdir()] == [RECORD.key]


def test_only_folders_of_containers_are_listed(tmp_path: Path) -> None:
    folders = ContainerFolders(tmp_path)
    folders.ensure(KEY)
    (tmp_path / "lost+found").mkdir()

    assert folders.keys() == [KEY]
    assert ContainerFolders(tmp_path / "not-there").keys() == []


def test_the_age_of_a_folder(tmp_path: Path) -> None:
    now = (tmp_path.stat().st_mtime) + 1000
    folders = ContainerFolders(tmp_path, wall_clock=lambda: now)
    folders.ensure(KEY)

    assert 990 < folders.age_seconds(KEY) <= 1000
    assert folders.age_seconds("fedcba9876543210") == 0
