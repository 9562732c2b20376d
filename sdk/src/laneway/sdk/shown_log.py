"""Remembers what was shown of a container's log, so that a stream that is opened again goes on where the last one was cut.

The stream is asked for with timestamps, and from the second of the newest line on, because ``sinceTime`` has whole seconds. The lines of
that second that were shown are known by their timestamps, and left out.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime

_TIMESTAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d) ")
_LONGEST_TIMESTAMP = len(b"2026-01-31T12:00:00.123456789+00:00 ")


class ShownLog:
    """The log of one container. Call ``begin`` before each stream, then ``new`` with each of its pieces."""

    def __init__(self) -> None:
        self._second = b""
        """The newest second in which a line was written, with its time zone; empty: no line was read."""

        self._lines: Counter[bytes] = Counter()
        """The timestamps of the lines of that second that were shown to their ends."""

        self._cut: tuple[bytes, int] | None = None
        """Timestamp of the last line, and how much of it was shown in bytes; None: it was shown to its end."""

    @property
    def since_time(self) -> str | None:
        """From when on the log is to be read; None: from its beginning."""
        return self._second.decode() or None

    def begin(self) -> None:
        """Begin with a stream."""
        self._held = b""  # of a timestamp whose end has not arrived
        self._line: bytes | None = (
            None  # timestamp of the line that is read; None: at the beginning of a line
        )
        self._position = 0  # in that line
        self._repeats = self._lines.copy()
        self._repeated = False

    def new(self, piece: bytes) -> bytes:
        """Return what a piece of the stream adds to what was shown, without the timestamps."""
        *whole, last = (self._held + piece).split(b"\n")
        added = [self._part(line) + self._end() for line in whole]
        waits = self._line is None and b" " not in last and len(last) < _LONGEST_TIMESTAMP
        self._held = last if waits else b""
        return b"".join(added) + (b"" if waits else self._part(last))

    def _part(self, text: bytes) -> bytes:
        """Return what a line, or a further part of it, adds."""
        before = b""
        if self._line is None:
            match = _TIMESTAMP.match(text)
            before, text = self._begin_line(match), text[match.end() if match else 0 :]
        position, self._position = self._position, self._position + len(text)
        if self._repeated:
            return b""
        shown = self._cut[1] if self._cut else 0
        self._cut = (self._line or b"", max(shown, self._position))
        return before + text[max(0, shown - position) :]

    def _begin_line(self, match: re.Match[bytes] | None) -> bytes:
        """Note the line's timestamp; return the end of the line before, if that was cut and does not come again."""
        self._line = match[0] if match else b""
        self._position = 0
        self._repeated = self._repeats[self._line] > 0
        if self._repeated:
            self._repeats[self._line] -= 1
            return b""
        second = match[1] + match[2] if match else self._second
        if second != self._second and (not self._second or _time(second) > _time(self._second)):
            self._second = second
            self._lines.clear()
        if self._cut is None or self._cut[0] == self._line:
            return b""
        self._cut = None
        return b"\n"

    def _end(self) -> bytes:
        line, self._line = self._line or b"", None
        if self._repeated:
            return b""
        self._cut = None
        match = _TIMESTAMP.match(line)
        if match and match[1] + match[2] == self._second:
            self._lines[line] += 1
        return b"\n"


def _time(second: bytes) -> datetime:
    return datetime.fromisoformat(second.decode())
