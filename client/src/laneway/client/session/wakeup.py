"""Wakes a thread that polls: the self-pipe trick. Waking is safe from any thread and from a signal handler,
and never blocks."""

from __future__ import annotations

import os
from contextlib import suppress


class WakeupPipe:
    """A pipe to oneself, readable from `wake` until `clear`."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def fileno(self) -> int:
        """Returns the descriptor to poll for input."""
        return self._read

    def wake(self) -> None:
        """Wakes the polling thread."""
        try:
            os.write(self._write, b"!")
        except BlockingIOError:
            return  # the pipe is full, so the thread is being woken already
        except OSError:
            return  # closed: nobody polls any more

    def clear(self) -> None:
        """Empties the pipe."""
        try:
            os.read(self._read, 4096)
        except OSError:
            return  # the pipe was empty

    def close(self) -> None:
        """Closes both ends."""
        for descriptor in (self._read, self._write):
            with suppress(OSError):
                os.close(descriptor)
        self._read = self._write = -1

    def __del__(self) -> None:
        self.close()
