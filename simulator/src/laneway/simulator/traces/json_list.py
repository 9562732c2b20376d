"""Reads a JSON list item by item: a log may be larger than memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from laneway.simulator.input_file import InputError

_CHUNK_CHARACTERS = 1 << 20
_SPACE = re.compile(r"\s*")
_BETWEEN = re.compile(r"[\s,]*")


def json_items(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each object of a JSON list, with the number of the line on which it begins.

    Raises:
        InputError: the file cannot be read, or is not a JSON list of objects; the message names the line.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            yield from _List(path, file).items()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a JSON file: {error}") from error


class _List:
    """A partly read list: the unread part of ``text`` starts at ``place``."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path = path
        self._file = file
        self._text = ""
        self._place = 0
        self._line = 1

    def items(self) -> Iterator[tuple[int, dict[str, Any]]]:
        if self._next_character(_SPACE) != "[":
            raise self._wrong("write a list of jobs: [{...}, {...}]")
        self._go_to(self._place + 1)
        while (character := self._next_character(_BETWEEN)) != "]":
            if character != "{":
                raise self._wrong("write an object, {...}, for each job, and ] at the end")
            yield self._line, self._object()
        self._go_to(self._place + 1)
        if self._next_character(_SPACE):
            raise self._wrong("remove what follows the list")

    def _object(self) -> dict[str, Any]:
        characters = _CHUNK_CHARACTERS
        while True:
            try:
                item, end = json.JSONDecoder().raw_decode(self._text, self._place)
            except json.JSONDecodeError as error:
                if not self._read(characters):
                    raise self._wrong(error.msg) from error
                characters *= (
                    2  # the object is parsed again with more text: rarely, because the amount doubles
                )
            else:
                assert isinstance(item, dict)  # it begins with a brace
                self._go_to(end)
                return item

    def _next_character(self, passing: re.Pattern[str]) -> str:
        """Skip the characters that match ``passing`` and return the next one; empty at the end of the file."""
        while True:
            found = passing.match(self._text, self._place)
            self._go_to(found.end() if found else self._place)
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._read(_CHUNK_CHARACTERS):
                return ""

    def _read(self, characters: int) -> bool:
        chunk = self._file.read(characters)
        self._text, self._place = self._text[self._place :] + chunk, 0
        return bool(chunk)

    def _go_to(self, place: int) -> None:
        self._line += self._text.count("\n", self._place, place)
        self._place = place

    def _wrong(self, instead: str) -> InputError:
        return InputError(f"{self._path}, line {self._line}: it is not a JSON list of jobs: {instead}")
