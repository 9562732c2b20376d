"""A bell: wakes a thread that polls. Ringing is safe from any thread and from a signal handler, and never blocks."""

from __future__ import annotations

import os
from contextlib import suppress


class Bell:
    """A pipe of which both ends are here; readable from the first ring until it is silenced."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def fileno(self) -> int:
        """The descriptor to poll for input."""
        return self._read

    def ring(self) -> None:
        """Wakes whoever polls."""
        try:
            os.write(self._write, b"!")
        except BlockingIOError:
            return  # it is ringing already
        except OSError:
            return  # closed: nobody polls any more

    def silence(self) -> None:
        """Stops the ringing."""
        try:
            os.read(self._read, 4096)
        except OSError:
            return  # it was not ringing

    def close(self) -> None:
        """Gives both descriptors back."""
        for descriptor in (self._read, self._write):
            with suppress(OSError):
                os.close(descriptor)
        self._read = self._write = -1

    def __del__(self) -> None:
        self.close()
