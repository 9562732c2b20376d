"""Reads the commands of a page that a reader types in order, and compares the output that it shows with what they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"GPU-[0-9a-f-]+|[\w-]*node-\d+")
"""Of a GPU or a node. Each cluster has others."""

_FIGURE = re.compile(r"\d+\.\d+")
"""What a run measures."""

_PARTS = re.compile(rf"({_NAME.pattern}|{_FIGURE.pattern}|…|\s+)")


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


@dataclass
class Comparison:
    """Compares the output on one page with what was printed, block by block."""

    here: dict[str, str] = field(default_factory=dict)
    """The names of this cluster's nodes and GPUs, by those on the page."""

    def missing(self, shown: tuple[str, ...], printed: str) -> list[str]:
        """Returns the shown lines that were not printed.

        The name of a node or GPU stands for one name of this cluster, on the whole page. A figure with a decimal point stands for any
        other, and an ellipsis for the rest of a line.
        """
        return [line for line in shown if not self._was_printed(line, printed)]

    def _was_printed(self, line: str, printed: str) -> bool:
        names: list[str] = []
        pattern = "".join(self._pattern(part, names) for part in _PARTS.split(line.strip()))
        found = re.search(rf"^[ \t]*{pattern}[ \t]*$", printed, re.MULTILINE)
        if found is None:
            return False
        self.here |= {name: found[f"name{place}"] for place, name in enumerate(names)}
        return True

    def _pattern(self, part: str, names: list[str]) -> str:
        """Returns a part of a line as a regular expression; adds a name that stands for nothing yet to the line's."""
        if not _NAME.fullmatch(part):
            return _pattern_of_text(part)
        if part in self.here:
            return re.escape(self.here[part])
        if part in names:
            return f"(?P=name{names.index(part)})"
        names.append(part)
        return rf"(?P<name{len(names) - 1}>[\w.-]+)"


def _pattern_of_text(part: str) -> str:
    """Returns a part of a line that is no name as a regular expression."""
    if part == "…":
        return ".*"
    if part.isspace():
        return r"[ \t]+"
    return _FIGURE.pattern if _FIGURE.fullmatch(part) else re.escape(part)
