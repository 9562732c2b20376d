"""The page of one session: 4,096 bytes shared with the client (docs/contracts.md, "The page").

The memfd is sealed against shrinking, because reading past its end would kill the agent.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Final

from laneway.node_agent.turns.session import Page

PAGE_BYTES: Final = 4096
MAGIC: Final = int.from_bytes(b"LANEWAY1", "little")

_TURN, _YIELD, _PAUSED, _AVAILABLE_BYTES, _SUCCESSOR, _ARMED_TURN, _ARMED_WAKE = 1, 2, 3, 4, 5, 6, 7
_ITERATIONS, _INSIDE, _BOUNDARY_NS, _HELD_BYTES, _PEAK_BYTES, _BUSY_NS, _DATA_NS = 8, 9, 10, 11, 12, 13, 14
_TAKEN = 15
_KEEPS_MEMORY = 16
_KEPT_MEMORY, _TAKEN_NS = 24, 25


class SharedPage:
    """The agent's side. A word is eight aligned bytes with one writer: reads are never torn and need no
    lock."""

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
        """The descriptor for the client; closed by :meth:`close_descriptor` once it is sent."""
        self._words = memoryview(self._memory).cast("Q")
        self._words[0] = MAGIC

    def close_descriptor(self) -> None:
        """Close the agent's copy of the descriptor; the mapping stays."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def close(self) -> None:
        """Unmap the page, which must not be read afterwards. Closing twice does nothing."""
        self.close_descriptor()
        if self._memory.closed:
            return
        self._words.release()
        self._memory.close()

    def carry_over(self, earlier: Page) -> None:
        """Start with the counters of the process's earlier page; call this before the client has the page."""
        self._words[_ITERATIONS] = earlier.iterations
        self._words[_BUSY_NS] = earlier.busy_ns
        self._words[_DATA_NS] = earlier.data_ns
        self._words[_HELD_BYTES] = earlier.held_bytes

    def write_turn(self, turn: int) -> None:
        """Write the turn that the session holds, 0 for none, and clear the request to yield."""
        self._words[_YIELD] = 0
        self._words[_TURN] = turn

    def write_yield(self, from_ns: int = 1) -> None:
        """Ask the session to release at its first boundary after a time (CLOCK_MONOTONIC); 1: at the next
        boundary."""
        self._words[_YIELD] = from_ns

    def write_paused(self, paused: bool) -> None:
        """Write whether the session may hold no turn."""
        self._words[_PAUSED] = paused

    def write_available(self, available_bytes: int) -> None:
        """Write how much of a simulated GPU the process may hold."""
        self._words[_AVAILABLE_BYTES] = available_bytes

    def write_successor(self, wake: int) -> None:
        """Write which wake the session signals with its release; 0: none."""
        self._words[_SUCCESSOR] = wake

    def write_armed(self, turn: int, wake: int) -> None:
        """Write which turn the session may begin once a wake is signalled. The turn is the last word set and
        the first one cleared."""
        self._words[_ARMED_TURN] = 0
        self._words[_ARMED_WAKE] = wake
        self._words[_ARMED_TURN] = turn

    def write_keeps_memory(self, keeps: bool) -> None:
        """Write whether the session may keep cached memory when it releases."""
        self._words[_KEEPS_MEMORY] = keeps

    @property
    def kept_memory(self) -> bool:
        """Return whether the process kept cached memory at its last release."""
        return self._words[_KEPT_MEMORY] != 0

    @property
    def taken(self) -> int:
        """Return the armed turn that the process has begun."""
        return self._words[_TAKEN]

    @property
    def taken_ns(self) -> int:
        """Return CLOCK_MONOTONIC of when the process began the armed turn."""
        return self._words[_TAKEN_NS]

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
    def peak_bytes(self) -> int:
        """Return the most bytes that the process held since its last boundary."""
        return self._words[_PEAK_BYTES]

    @property
    def busy_ns(self) -> int:
        """Return the time that the process spent inside iterations."""
        return self._words[_BUSY_NS]

    @property
    def data_ns(self) -> int:
        """Return the time that the process spent between iterations, without waiting for turns."""
        return self._words[_DATA_NS]
