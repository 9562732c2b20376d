"""The page of one session: 4,096 bytes shared with the client (docs/contracts.md, "The page").

The memfd is sealed, so that a client cannot shrink it under the agent's feet (reading past its end would kill the agent).
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Final

from laneway.node_agent.turns.session import Page

PAGE_BYTES: Final = 4096
MAGIC: Final = int.from_bytes(b"LANEWAY1", "little")

_TURN, _YIELD, _PAUSED, _ROOM = 1, 2, 3, 4
_ITERATIONS, _INSIDE, _BOUNDARY_NS, _HELD_BYTES, _HIGHEST_BYTES, _BUSY_NS, _DATA_NS = 8, 9, 10, 11, 12, 13, 14


class SharedPage:
    """The agent's side. A word is eight bytes, aligned, with one writer: no read is torn and none needs a lock."""

    def __init__(self) -> None:
        descriptor = os.memfd_create("laneway-session", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, PAGE_BYTES)
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
            self._memory = mmap.mmap(descriptor, PAGE_BYTES)
        except BaseException:
            os.close(descriptor)
            raise
        self.descriptor = descriptor
        """What the client gets; closed by :meth:`close_descriptor` once it is sent."""
        self._words = memoryview(self._memory).cast("Q")
        self._words[0] = MAGIC

    def close_descriptor(self) -> None:
        """Close the agent's copy of the descriptor; the mapping stays."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def close(self) -> None:
        """Unmap the page; it must not be read any more. Closing it again does nothing."""
        self.close_descriptor()
        if self._memory.closed:
            return
        self._words.release()
        self._memory.close()

    def carry_over(self, earlier: Page) -> None:
        """Begin with the figures of the process's earlier page; only before the client has this one."""
        self._words[_ITERATIONS] = earlier.iterations
        self._words[_BUSY_NS] = earlier.busy_ns
        self._words[_DATA_NS] = earlier.data_ns
        self._words[_HELD_BYTES] = earlier.held_bytes

    def show_turn(self, turn: int) -> None:
        """Write the turn that the session holds, 0 for none, and take back the wish that it yield."""
        self._words[_YIELD] = 0
        self._words[_TURN] = turn

    def show_yield(self, from_ns: int = 1) -> None:
        """Write that the session is to release at its first boundary from that time on (CLOCK_MONOTONIC); 1: at the next one."""
        self._words[_YIELD] = from_ns

    def show_paused(self, paused: bool) -> None:
        """Write whether the session is to hold no turn."""
        self._words[_PAUSED] = paused

    def show_room(self, room_bytes: int) -> None:
        """Write how much the process may hold of a simulated GPU."""
        self._words[_ROOM] = room_bytes

    @property
    def iterations(self) -> int:
        """Return the iterations that the process completed."""
        return self._words[_ITERATIONS]

    @property
    def inside(self) -> bool:
        """Return whether the process is inside an iteration."""
        return self._words[_INSIDE] != 0

    @property
    def boundary_ns(self) -> int:
        """Return CLOCK_MONOTONIC of the process's last boundary."""
        return self._words[_BOUNDARY_NS]

    @property
    def held_bytes(self) -> int:
        """Return the bytes that the process holds."""
        return self._words[_HELD_BYTES]

    @property
    def highest_bytes(self) -> int:
        """Return the most bytes that the process held since its last boundary."""
        return self._words[_HIGHEST_BYTES]

    @property
    def busy_ns(self) -> int:
        """Return the time that the process spent inside iterations."""
        return self._words[_BUSY_NS]

    @property
    def data_ns(self) -> int:
        """Return the time that the process spent between iterations, waits for turns not counted."""
        return self._words[_DATA_NS]
