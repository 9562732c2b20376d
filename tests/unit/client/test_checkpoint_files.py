"""Files of a checkpoint: whole, or refused with a sentence; generations: whole, or not used."""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.client.checkpoint.errors import CheckpointError
from laneway.client.checkpoint.folder import Folder, Generation
from laneway.client.checkpoint.part_file import HEADER_BYTES, Manifest, read_part, write_part

MANIFEST = Manifest("0123abcd", 12, 0, 1)
CONTENT = {"weights": list(range(300)), "name": "part"}


def good_file() -> bytes:
    """The bytes of a file as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part"
        write_part(str(path), MANIFEST, lambda file: pickle.dump(CONTENT, file))
        return path.read_bytes()


WHOLE = good_file()


def read(folder: Path, content: bytes, expected: Manifest = MANIFEST) -> object:
    path = folder / "part"
    path.write_bytes(content)
    return read_part(str(path), expected, pickle.load)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, WHOLE) == CONTENT
    assert len(WHOLE) > HEADER_BYTES


@given(data=st.data())
def test_a_file_torn_at_any_byte_is_refused(data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(WHOLE) - 1), label="bytes that are left")
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.raises(CheckpointError, match=r"part is (torn|no checkpoint)"),
    ):
        read(Path(folder), WHOLE[:length])


@given(data=st.data())
def test_a_file_with_one_byte_changed_anywhere_is_refused(data: st.DataObject) -> None:
    where = data.draw(st.integers(0, len(WHOLE) - 1), label="offset")
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != WHOLE[where]), label="byte")
    changed = WHOLE[:where] + bytes([byte]) + WHOLE[where + 1 :]
    with tempfile.TemporaryDirectory() as folder, pytest.raises(CheckpointError, match="part is "):
        read(Path(folder), changed)


@given(tail=st.binary(min_size=1, max_size=50))
def test_a_file_with_something_behind_it_is_refused(tail: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.raises(CheckpointError, match="part is torn"):
        read(Path(folder), WHOLE + tail)


def test_nothing_of_a_foreign_file_is_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "part"
    path.write_bytes(pickle.dumps(CONTENT))

    def load(file: object) -> object:
        raise AssertionError("it was loaded")

    with pytest.raises(CheckpointError, match="part is no checkpoint of Laneway"):
        read_part(str(path), MANIFEST, load)


def test_a_file_that_bears_another_ones_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="part is not what its name says"):
        read(tmp_path, WHOLE, Manifest("0123abcd", 13, 0, 1))


def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "part"
    write_part(str(path), MANIFEST, lambda file: pickle.dump(CONTENT, file))

    def fill_the_disk(file: object) -> None:
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_part(str(path), MANIFEST, fill_the_disk)
    assert read_part(str(path), MANIFEST, pickle.load) == CONTENT
    assert os.listdir(tmp_path) == ["part"]


def make(folder: Folder, number: int, run: str = "aaaaaaaa", ranks: tuple[int, ...] = (0, 1)) -> Generation:
    generation = Generation(number, run, 2)
    for rank in ranks:
        Path(folder.file(generation, rank)).touch()
    return generation


def test_a_generation_is_whole_when_every_rank_of_one_run_has_saved_it(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    first, second = make(folder, 1), make(folder, 2)
    make(folder, 3, ranks=(0,))
    make(folder, 4, "bbbbbbbb", ranks=(0,))
    make(folder, 4, "cccccccc", ranks=(1,))
    (tmp_path / "000000000005-dddddddd.0-of-1.checkpoint.partial").touch()
    (tmp_path / "notes.txt").touch()
    assert folder.whole() == [second, first]


def test_the_newest_whole_ones_are_kept_and_what_is_newer_stays(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    make(folder, 1)
    make(folder, 2, ranks=(1,))
    third, fourth = make(folder, 3), make(folder, 4)
    make(folder, 5, ranks=(0,))
    folder.keep(2)
    assert folder.whole() == [fourth, third]
    assert sorted(int(name[:12]) for name in os.listdir(tmp_path)) == [3, 3, 4, 4, 5]


def test_what_lies_beyond_the_point_where_a_job_goes_on_is_made_anew(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    first = make(folder, 1)
    make(folder, 2)
    make(folder, 3, ranks=(0,))
    folder.drop_newer(first)
    assert folder.whole() == [first]
    assert len(os.listdir(tmp_path)) == 2


def test_a_rank_clears_away_what_it_was_writing_when_it_was_killed(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    for rank in (0, 1):
        Path(folder.file(Generation(3, "aaaaaaaa", 2), rank) + ".partial").touch()
    (tmp_path / "other.partial").touch()
    folder.drop_partial(1)
    assert sorted(os.listdir(tmp_path)) == [
        "000000000003-aaaaaaaa.0-of-2.checkpoint.partial",
        "other.partial",
    ]
