"""A progress bar for terminals."""

from __future__ import annotations

from typing import TextIO

_WIDTH = 30


class ProgressBar:
    """One line that is overwritten; it writes nothing if the output is not a terminal."""

    def __init__(self, name: str, to: TextIO) -> None:
        self._name = name
        self._to = to if to.isatty() else None
        self._shown = ""
        self._permille = -1

    def show(self, done: int, total: int) -> None:
        """Show the progress."""
        permille = 1000 * done // max(1, total)
        if self._to is None or permille == self._permille:
            return
        self._permille = permille
        filled = _WIDTH * done // max(1, total)
        self._shown = f"{self._name} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total}"
        self._to.write(f"\r{self._shown}")
        self._to.flush()

    def clear(self) -> None:
        """Erase the line."""
        if self._to is not None and self._shown:
            self._to.write("\r" + " " * len(self._shown) + "\r")
            self._to.flush()
