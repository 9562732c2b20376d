"""The process's resident memory and its peak, as the kernel reports them; reading takes a microsecond."""

from __future__ import annotations

import os
import resource
from typing import Final

RESET_MARK: Final = b"5"
"""Writing this to clear_refs resets the high-water mark to what is resident now (proc(5))."""
STUCK_BYTES: Final = 64 << 20
"""A mark that stays this far above resident memory dates from before an exec."""


class ResidentMemory:
    """The resident memory of this process."""

    def __init__(self, proc: str = "/proc/self") -> None:
        self._proc = proc

    def reset_peak(self) -> None:
        """Resets the high-water mark.

        Raises:
            OSError: the system has no such mark, or does not allow resetting it.
        """
        with open(f"{self._proc}/clear_refs", "wb", buffering=0) as file:
            file.write(RESET_MARK)
        if self.highest_bytes() > self.bytes_now() + STUCK_BYTES:
            raise OSError("the high-water mark did not fall")

    def highest_bytes(self) -> int:
        """Returns the high-water mark."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def bytes_now(self) -> int:
        """Returns the resident bytes.

        Raises:
            OSError: the system does not report them.
        """
        with open(f"{self._proc}/statm", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
