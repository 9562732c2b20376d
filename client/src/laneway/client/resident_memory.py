"""How much of the host's memory this process needs, and has needed: the kernel's own figures, which cost a microsecond to read."""

from __future__ import annotations

import os
import resource
from typing import Final

RESET_MARK: Final = b"5"
"""What proc(5) says to write into clear_refs, so that the high-water mark falls to what is resident now."""
STUCK_BYTES: Final = 64 << 20
"""A mark that stays so far above what is resident is that of the program that this process was before an exec."""


class ResidentMemory:
    """Of this process."""

    def __init__(self, proc: str = "/proc/self") -> None:
        self._proc = proc

    def restart(self) -> None:
        """From now on the high-water mark counts anew.

        Raises:
            OSError: the system keeps no such mark, or lets nobody reset it.
        """
        with open(f"{self._proc}/clear_refs", "wb", buffering=0) as file:
            file.write(RESET_MARK)
        if self.highest_bytes() > self.bytes_now() + STUCK_BYTES:
            raise OSError("the high-water mark did not fall")

    def highest_bytes(self) -> int:
        """The high-water mark."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def bytes_now(self) -> int:
        """What is resident.

        Raises:
            OSError: the system does not say.
        """
        with open(f"{self._proc}/statm", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
