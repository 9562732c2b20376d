"""Reads the commands of a page that a reader types in order, and the output that it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A block of commands, and the lines of output that the page shows below it."""

    commands: str
    shown: tuple[str, ...] = ()


def steps(page: str) -> Iterator[Step]:
    """Yields the `sh` blocks of a page, each with the `text` block that follows it."""
    blocks = [(language, block) for language, block in _BLOCK.findall(page) if language in ("sh", "text")]
    for place, (language, commands) in enumerate(blocks):
        if language == "sh":
            following, output = blocks[place + 1] if place + 1 < len(blocks) else ("", "")
            yield Step(commands, tuple(output.splitlines()) if following == "text" else ())


def missing(shown: tuple[str, ...], printed: str) -> list[str]:
    """Returns the shown lines that were not printed. A word with a digit stands for any word, an ellipsis for the rest of a line."""
    return [line for line in shown if not re.search(rf"^\s*{_pattern(line)}\s*$", printed, re.MULTILINE)]


def _pattern(line: str) -> str:
    return r"\s+".join(_word(word) for word in line.split())


def _word(word: str) -> str:
    if word == "…":
        return ".*"
    return r"\S+" if any(character.isdigit() for character in word) else re.escape(word)
