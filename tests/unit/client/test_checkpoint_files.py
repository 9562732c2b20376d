"""Checkpoint files are complete or rejected with a message; incomplete generations are not used."""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.client.checkpoint.checkpoint_file import (
    HEADER_BYTES,
    Manifest,
    read_checkpoint_file,
    write_checkpoint_file,
)
from laneway.client.checkpoint.errors import CheckpointError
from laneway.client.checkpoint.folder import CheckpointFolder, Generation

MANIFEST = Manifest("0123abcd", 12, 0, 1)
CONTENT = {"weights": list(range(300)), "name": "part"}


def good_file() -> bytes:
    """The bytes of an intact file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part"
        write_checkpoint_file(str(path), MANIFEST, lambda file: pickle.dump(CONTENT, file))
        return path.read_bytes()


WHOLE = good_file()


def read(folder: Path, content: bytes, expected: Manifest = MANIFEST) -> object:
    path = folder / "part"
    path.write_bytes(content)
    return read_checkpoint_file(str(path), expected, pickle.load)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read(tmp_path, WHOLE) == CONTENT
    assert len(WHOLE) > HEADER_BYTES


@given(data=st.data())
def test_a_file_truncated_at_any_byte_is_rejected(data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(WHOLE) - 1), label="bytes that are left")
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.raises(CheckpointError, match=r"part is (truncated|not a Laneway checkpoint)"),
    ):
        read(Path(folder), WHOLE[:length])


@given(data=st.data())
def test_a_file_with_any_byte_changed_is_rejected(data: st.DataObject) -> None:
    where = data.draw(st.integers(0, len(WHOLE) - 1), label="offset")
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != WHOLE[where]), label="byte")
    changed = WHOLE[:where] + bytes([byte]) + WHOLE[where + 1 :]
    with tempfile.TemporaryDirectory() as folder, pytest.raises(CheckpointError, match="part is "):
        read(Path(folder), changed)


@given(tail=st.binary(min_size=1, max_size=50))
def test_a_file_with_trailing_data_is_rejected(tail: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.raises(CheckpointError, match="part is truncated"):
        read(Path(folder), WHOLE + tail)


def test_a_foreign_file_is_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "part"
    path.write_bytes(pickle.dumps(CONTENT))

    def load(file: object) -> object:
        raise AssertionError("it was loaded")

    with pytest.raises(CheckpointError, match="part is not a Laneway checkpoint"):
        read_checkpoint_file(str(path), MANIFEST, load)


def test_a_misnamed_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="part is misnamed"):
        read(tmp_path, WHOLE, Manifest("0123abcd", 13, 0, 1))


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "part"
    write_checkpoint_file(str(path), MANIFEST, lambda file: pickle.dump(CONTENT, file))

    def fill_the_disk(file: object) -> None:
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_checkpoint_file(str(path), MANIFEST, fill_the_disk)
    assert read_checkpoint_file(str(path), MANIFEST, pickle.load) == CONTENT
    assert os.listdir(tmp_path) == ["part"]


def make(
    folder: CheckpointFolder, number: int, run: str = "aaaaaaaa", ranks: tuple[int, ...] = (0, 1)
) -> Generation:
    generation = Generation(number, run, 2)
    for rank in ranks:
        Path(folder.file(generation, rank)).touch()
    return generation


def test_a_generation_is_complete_when_every_rank_of_a_run_has_saved(tmp_path: Path) -> None:
    folder = CheckpointFolder(str(tmp_path))
    first, second = make(folder, 1), make(folder, 2)
    make(folder, 3, ranks=(0,))
    make(folder, 4, "bbbbbbbb", ranks=(0,))
    make(folder, 4, "cccccccc", ranks=(1,))
    (tmp_path / "000000000005-dddddddd.0-of-1.checkpoint.partial").touch()
    (tmp_path / "notes.txt").touch()
    assert folder.complete() == [second, first]


def test_the_newest_complete_generations_and_newer_ones_are_kept(tmp_path: Path) -> None:
    folder = CheckpointFolder(str(tmp_path))
    make(folder, 1)
    make(folder, 2, ranks=(1,))
    third, fourth = make(folder, 3), make(folder, 4)
    make(folder, 5, ranks=(0,))
    folder.keep(2)
    assert folder.complete() == [fourth, third]
    assert sorted(int(name[:12]) for name in os.listdir(tmp_path)) == [3, 3, 4, 4, 5]


def test_generations_after_the_resumed_one_are_deleted(tmp_path: Path) -> None:
    folder = CheckpointFolder(str(tmp_path))
    first = make(folder, 1)
    make(folder, 2)
    make(folder, 3, ranks=(0,))
    folder.drop_newer(first)
    assert folder.complete() == [first]
    assert len(os.listdir(tmp_path)) == 2


def test_a_rank_deletes_its_partial_files_of_an_earlier_run_with_more_ranks(tmp_path: Path) -> None:
    folder = CheckpointFolder(str(tmp_path))
    for rank in range(4):
        Path(folder.file(Generation(3, "aaaaaaaa", 4), rank) + ".partial").touch()
    (tmp_path / "other.partial").touch()
    folder.drop_partial(1, 2)
    assert sorted(os.listdir(tmp_path)) == [
        "000000000003-aaaaaaaa.0-of-4.checkpoint.partial",
        "000000000003-aaaaaaaa.2-of-4.checkpoint.partial",
        "other.partial",
    ]
