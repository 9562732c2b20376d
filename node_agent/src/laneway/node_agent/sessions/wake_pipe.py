"""The two ends of a wake, with which the holder of a turn wakes the process after it (docs/contracts.md, "A direct
hand-off").

The two processes belong to different tenants. Whether a descriptor blocks is a property of the open file, which all its
copies share. So each process gets an open file of its own: with one for both, as an eventfd has, one process could make
the other one block in its release.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WakePipe:
    """A pipe, opened once for each process. Neither open file blocks, whatever is done with the other one.

    Both are open for reading and writing, so that the end of one process means nothing to the other one: no SIGPIPE,
    and no end of file that would wake it again and again.
    """

    awaited: int
    """For the process that is woken: readable after a signal."""

    signalled: int
    """For the process that wakes it."""

    @classmethod
    def create(cls) -> WakePipe:
        """Create a pipe.

        Raises:
            OSError: there is no free descriptor.
        """
        with ExitStack() as unused:
            ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            for end in ends:
                unused.callback(os.close, end)
            awaited = _opened_again(ends[0])
            try:
                return cls(awaited, _opened_again(ends[0]))
            except BaseException:
                os.close(awaited)
                raise

    def close(self) -> None:
        """Close the agent's copies; the processes have theirs."""
        os.close(self.awaited)
        os.close(self.signalled)


def _opened_again(descriptor: int) -> int:
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
