"""The page: 4,096 bytes of memory shared with the agent, read and written as aligned 64-bit words (docs/contracts.md, "The page").

Each word has one writer and an aligned word is never torn, so neither side needs a lock. Indices here are offsets divided by 8.
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
"""Agent: release at the first boundary from this CLOCK_MONOTONIC (ns) on, which may lie ahead; 0: nobody asks."""
PAUSED: Final = 3
"""Agent: 1: paused."""
ROOM: Final = 4
"""Agent: bytes that the process may hold of a simulated device, most of which others may have; 0: as many as its quota."""
ITERATIONS: Final = 8
"""Client: iterations completed."""
INSIDE: Final = 9
"""Client: 1 while inside an iteration."""
BOUNDARY_NS: Final = 10
"""Client: CLOCK_MONOTONIC of the last boundary."""
HELD_BYTES: Final = 11
"""Client: bytes held now."""
HIGHEST_BYTES: Final = 12
"""Client: highest bytes held since the last boundary."""
BUSY_NS: Final = 13
"""Client: time inside iterations, total."""
DATA_NS: Final = 14
"""Client: time between iterations that was no wait for a turn, total."""


class PageError(Exception):
    """What came with the welcome is no page of ours; the message says why."""


def map_page(descriptor: int) -> memoryview:
    """Maps the page behind `descriptor` and returns its words; the descriptor may be closed afterwards.

    Raises:
        PageError: it is too small (reading past its end would kill the process), or its magic is not ours.
        OSError: it cannot be mapped.
    """
    size = os.fstat(descriptor).st_size
    if size < PAGE_BYTES:
        raise PageError(f"the page has {size} bytes instead of {PAGE_BYTES}")
    words = memoryview(mmap.mmap(descriptor, PAGE_BYTES)).cast("Q")
    if words[MAGIC_WORD] != MAGIC:
        raise PageError(f"the page begins with {words[MAGIC_WORD]:#x} instead of 'LANEWAY1'")
    return words


def private_page() -> memoryview:
    """Words of the same layout that nobody else sees: turn 0 is held and nobody ever asks for it."""
    return memoryview(bytearray(PAGE_BYTES)).cast("Q")


def is_supported() -> bool:
    """The words are little-endian, and are read as the machine's own."""
    return sys.byteorder == "little"
