"""The shared page: 4,096 bytes of memory shared with the agent, used as aligned 64-bit words
(docs/contracts.md, "The page").

Each word has one writer, and aligned words are read and written atomically, so no lock is needed. The
constants are word indices: byte offsets divided by 8.
"""

from __future__ import annotations

import mmap
import os
import sys
from typing import Final

PAGE_BYTES: Final = 4096
MAGIC: Final = int.from_bytes(b"LANEWAY1", "little")

MAGIC_WORD: Final = 0
TURN: Final = 1
"""Agent: the turn that this session holds, 0 for none."""
YIELD: Final = 2
"""Agent: release at the first boundary after this CLOCK_MONOTONIC time (ns), which may be in the future; 0:
do not release."""
PAUSED: Final = 3
"""Agent: 1 while paused."""
LIMIT_BYTES: Final = 4
"""Agent: bytes that the process may hold of a simulated device that others have filled; 0: its quota."""
SUCCESSOR: Final = 5
"""Agent: the wake to signal just before the turn is released; 0: none."""
ARMED_TURN: Final = 6
"""Agent: the turn that may begin once `ARMED_WAKE` is signalled; 0: none."""
ARMED_WAKE: Final = 7
"""Agent: the wake that announces `ARMED_TURN`."""
ITERATIONS: Final = 8
"""Client: iterations completed."""
INSIDE: Final = 9
"""Client: 1 while inside an iteration."""
BOUNDARY_NS: Final = 10
"""Client: CLOCK_MONOTONIC time of the last boundary (ns)."""
HELD_BYTES: Final = 11
"""Client: bytes held now."""
HIGHEST_BYTES: Final = 12
"""Client: most bytes held since the last boundary."""
BUSY_NS: Final = 13
"""Client: total time inside iterations (ns)."""
DATA_NS: Final = 14
"""Client: total time between iterations, without waits for a turn (ns)."""
TAKEN: Final = 15
"""Client: the turn that it began because it was woken, until its release; 0: none."""
KEEPS_MEMORY: Final = 16
"""Agent: 1: no other job needs the memory of this one, so it may keep cached blocks when it releases."""
KEPT_MEMORY: Final = 24
"""Client: 1 from a release with cached blocks until they are freed."""
TAKEN_NS: Final = 25
"""Client: CLOCK_MONOTONIC time at which it began that turn (ns)."""


class SharedPageError(Exception):
    """The descriptor sent with the welcome is not a valid shared page; the message says why."""


def map_shared_page(descriptor: int) -> memoryview:
    """Maps the page and returns its words. The descriptor may be closed afterwards.

    Raises:
        SharedPageError: the page is too small (reading past its end would kill the process), or its magic
            number is wrong.
        OSError: the page cannot be mapped.
    """
    size = os.fstat(descriptor).st_size
    if size < PAGE_BYTES:
        raise SharedPageError(f"the shared page has {size} bytes instead of {PAGE_BYTES}")
    words = memoryview(mmap.mmap(descriptor, PAGE_BYTES)).cast("Q")
    if words[MAGIC_WORD] != MAGIC:
        raise SharedPageError(f"the shared page begins with {words[MAGIC_WORD]:#x} instead of 'LANEWAY1'")
    return words


def local_page() -> memoryview:
    """Returns words with the same layout in private memory: no turn is granted and none is requested back."""
    return memoryview(bytearray(PAGE_BYTES)).cast("Q")


def is_supported() -> bool:
    """Returns whether this machine is little-endian, as the page is."""
    return sys.byteorder == "little"
