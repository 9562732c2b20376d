"""The interposer's copies for machines without containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gpu.interposer import PLACE, place


def built(folder: Path, content: bytes) -> Path:
    library = folder / "built.so"
    library.write_bytes(content)
    return library


def test_a_copy_has_the_folder_in_each_place_and_keeps_its_length(tmp_path: Path) -> None:
    content = b"ELF" + PLACE + b"/account.sock\0" + PLACE + b"/agent.sock\0"
    made = place(built(tmp_path, content), Path("/tmp/lw-1/folder"), tmp_path / "copy.so").read_bytes()
    assert len(made) == len(content)
    first, second = (part.rstrip(b"/") for part in made[3:].split(b"\0")[0].split(b"account.sock"))
    assert (first, second) == (b"/tmp/lw-1/folder", b"")
    assert PLACE not in made


@pytest.mark.parametrize(
    ("content", "directory", "message"),
    [
        (b"ELF" + PLACE, "/" + 90 * "x", "choose a shorter TMPDIR"),
        (b"ELF /run/laneway", "/tmp/lw-1", "run make gpu-wheels again"),
    ],
)
def test_what_cannot_be_placed_is_said(tmp_path: Path, content: bytes, directory: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        place(built(tmp_path, content), Path(directory), tmp_path / "copy.so")


def test_a_socket_in_the_longest_folder_is_as_long_as_a_path_may_be() -> None:
    assert len(PLACE) + len("/account.sock") <= 107
