"""The containers' folders."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from laneway.device_plugin.container_folders import ContainerFolders
from laneway.device_plugin.pod_resources import Holder
from laneway.device_plugin.share_manager import record_of

from tests.support.device_plugin.builders import ids, pod

KEY = "0123456789abcdef"
RECORD = record_of(Holder("default", "a", "trainer", frozenset(ids(0, range(50)))), pod("a"), None)


def test_a_record_is_read_back_as_written(tmp_path: Path) -> None:
    folders = ContainerFolders(tmp_path / "containers")

    assert folders.write(RECORD) is True
    assert folders.write(RECORD) is False
    assert folders.record(RECORD.key) == RECORD
    assert folders.keys() == [RECORD.key]
    assert sorted(file.name for file in folders.path(RECORD.key).iterdir()) == ["container.json"]


def test_an_unreadable_record_is_rewritten(tmp_path: Path) -> None:
    folders = ContainerFolders(tmp_path)
    folders.ensure(RECORD.key)
    (folders.path(RECORD.key) / "container.json").write_text('{"version": 1')

    assert folders.record(RECORD.key) is None
    assert folders.write(RECORD) is True
    assert folders.record(RECORD.key) == RECORD


def test_an_ended_containers_folder_is_gone_for_the_next_one_with_its_ids(tmp_path: Path) -> None:
    folders = ContainerFolders(tmp_path, delete=shutil.rmtree)
    folders.write(RECORD)
    (folders.path(RECORD.key) / "left").mkdir()

    folders.create(RECORD.device_ids, interposer=False)

    assert list(folders.path(RECORD.key).iterdir()) == []
    assert [entry.name for entry in tmp_path.iterdir()] == [RECORD.key]


def test_a_key_is_free_before_its_old_folder_is_deleted(tmp_path: Path) -> None:
    """Deleting a folder never delays the caller, regardless of its contents."""
    dead: list[Path] = []
    folders = ContainerFolders(tmp_path, delete=dead.append)
    folders.write(RECORD)

    folders.create(RECORD.device_ids, interposer=False)

    assert list(folders.path(RECORD.key).iterdir()) == []
    assert [(folder / "container.json").exists() for folder in dead] == [True]
    assert folders.keys() == [RECORD.key]


def test_leftovers_of_an_earlier_process_are_deleted(tmp_path: Path) -> None:
    interrupted = ContainerFolders(tmp_path, delete=lambda folder: None)
    interrupted.write(RECORD)
    interrupted.remove(RECORD.key)
    assert len(list(tmp_path.iterdir())) == 1

    ContainerFolders(tmp_path, delete=shutil.rmtree).delete_leftovers()

    assert list(tmp_path.iterdir()) == []
    ContainerFolders(tmp_path / "not-there").delete_leftovers()


def test_a_key_that_goes_to_another_container_has_another_life(tmp_path: Path) -> None:
    folders = ContainerFolders(tmp_path)
    folders.write(RECORD)
    before = folders.generation(RECORD.key)

    key = folders.create(RECORD.device_ids, interposer=False)
    first = folders.generation(key)
    folders.remove(key)
    gone = folders.generation(key)
    folders.create(RECORD.device_ids, interposer=False)

    assert key == RECORD.key
    assert (before, gone) == (0, 0)
    assert 0 != first != folders.generation(key) != 0
    assert folders.generations() == {key: folders.generation(key)}


def test_an_earlier_holder_of_an_id_loses_its_folder(tmp_path: Path) -> None:
    folders = ContainerFolders(tmp_path)
    other = record_of(Holder("default", "b", "trainer", frozenset(ids(0, range(50, 90)))), pod("b"), None)
    unnamed = folders.create(ids(1, range(10)), interposer=False)
    for record in (RECORD, other):
        folders.write(record)

    key = folders.create(ids(0, range(49, 50)), interposer=False)

    assert folders.keys() == sorted([key, other.key, unnamed])


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


@pytest.mark.parametrize("interposer", [False, True])
def test_what_a_container_was_allocated_with_is_known_from_its_record_after_a_restart(
    tmp_path: Path, interposer: bool
) -> None:
    folders = ContainerFolders(tmp_path, delete=shutil.rmtree)
    key = folders.create(RECORD.device_ids, interposer=interposer)
    assert folders.interposer(key) is interposer
    assert ContainerFolders(tmp_path).interposer(key) is None, "nothing was recorded yet"
    folders.write(RECORD.model_copy(update={"interposer": folders.interposer(key)}))
    assert ContainerFolders(tmp_path).interposer(key) is interposer
    folders.remove(key)
    assert folders.interposer(key) is None
