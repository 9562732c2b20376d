"""Wakes between the processes of a lane: the holder of a turn wakes its successor without the agent.

A wake is a pipe that the agent creates for one pair of processes. A signal alone allows nothing: it counts
only while the page says that this wake announces a turn (docs/contracts.md, "The page"). The process at the
other end is another tenant's, so nothing that it does with its end makes this one wait.
"""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from typing import Final

SIGNAL: Final = (1).to_bytes(8, sys.byteorder)
"""Eight bytes: the wakes of earlier agents are eventfds."""

_MANY_SIGNALS: Final = 4096
"""All that came are read together, so that the next one is new."""

MAX_STRAY_SIGNALS: Final = 1000
"""Signals without effect, one after the other, after which a wake is closed. The other process may signal as
often as it likes, and each signal costs this one's time."""


class DirectWakes:
    """The wakes of one session. The listening or the waiting thread adds and removes them."""

    def __init__(self) -> None:
        self._signalled: dict[int, int] = {}
        """By number, the descriptors with which this process wakes others."""
        self._awaited: dict[int, int] = {}
        """By descriptor, the numbers of the wakes that this process waits for."""
        self._epoll = select.epoll()
        self._stray_signals = 0

    def fileno(self) -> int:
        """Returns the descriptor to poll for input while a turn is awaited."""
        return self._epoll.fileno()

    def add(self, wake: int, descriptor: int, *, signals: bool) -> None:
        """Takes over the descriptor of a wake."""
        self.remove(wake)
        if signals:
            self._signalled[wake] = descriptor
        else:
            self._awaited[descriptor] = wake
            self._epoll.register(descriptor, select.EPOLLIN)

    def remove(self, wake: int) -> None:
        """Closes a wake; an unknown one is ignored."""
        descriptors = [found for found, number in self._awaited.items() if number == wake]
        for descriptor in descriptors:
            del self._awaited[descriptor]
        if wake in self._signalled:
            descriptors.append(self._signalled.pop(wake))
        for descriptor in descriptors:
            with suppress(OSError):
                os.close(descriptor)  # this also removes it from the epoll set

    def signal(self, wake: int) -> None:
        """Wakes the process at the other end; does nothing for an unknown wake."""
        descriptor = self._signalled.get(wake)
        if descriptor is not None:
            with suppress(OSError):  # it is full, so the signal is there already
                os.write(descriptor, SIGNAL)

    def collect(self) -> list[int]:
        """Returns the wakes that were signalled since the last call."""
        wakes = []
        for descriptor, _event in self._epoll.poll(0):
            wake = self._awaited.get(descriptor)
            with suppress(OSError):  # the other process may have read the signal
                os.read(descriptor, _MANY_SIGNALS)
            if wake is not None:
                wakes.append(wake)
        return wakes

    def accept(self) -> None:
        """Records that a signal announced a turn."""
        self._stray_signals = 0

    def reject(self, wake: int) -> None:
        """Records a signal that announced nothing, and closes its wake after too many."""
        self._stray_signals += 1
        if self._stray_signals >= MAX_STRAY_SIGNALS:
            self._stray_signals = 0
            self.remove(wake)

    def close(self) -> None:
        """Closes all descriptors."""
        for wake in [*self._signalled, *self._awaited.values()]:
            self.remove(wake)
        self._epoll.close()

    def __del__(self) -> None:
        self.close()
