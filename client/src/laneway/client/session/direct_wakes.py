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
from typing import Final, Optional

SIGNAL: Final = (1).to_bytes(8, sys.byteorder)
"""Eight bytes: the wakes of earlier agents are eventfds."""

_MANY_SIGNALS: Final = 4096
"""All that came are read together, so that the next one is new."""

MAX_STRAY_SIGNALS: Final = 1000
"""Signals without effect, one after the other, after which a wake is closed. The other process may signal as
often as it likes, and each signal costs this one's time."""
MAX_EVENTS: Final = 64
"""Events of one system call: of all wakes of a process, and the other descriptors."""


class DirectWakes:
    """The wakes of one session, and the other descriptors that a thread polls while it waits for a turn. The listening
    or the waiting thread adds and removes wakes."""

    def __init__(self) -> None:
        self._signalled: dict[int, int] = {}
        """By number, the descriptors with which this process wakes others."""
        self._awaited: dict[int, int] = {}
        """By descriptor, the numbers of the wakes that this process waits for."""
        self._epoll = select.epoll()
        self._stray_signals = 0

    def watch(self, descriptor: int) -> None:
        """Makes `poll` return for input of another descriptor as well, until that is closed."""
        self._epoll.register(descriptor, select.EPOLLIN)

    def poll(self, seconds: Optional[float]) -> list[int]:
        """Returns the descriptors with input, and those of wakes whose signals were not cleared.

        Args:
            seconds: how long to wait at most; None for no limit.
        """
        return [descriptor for descriptor, _event in self._epoll.poll(seconds, MAX_EVENTS)]

    def wake_of(self, descriptor: int) -> int:
        """Returns the number of the wake that a polled descriptor belongs to; 0: it belongs to none."""
        return self._awaited.get(descriptor, 0)

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
            with suppress(OSError):  # closing it is not enough while a forked child has it
                self._epoll.unregister(descriptor)
        if wake in self._signalled:
            descriptors.append(self._signalled.pop(wake))
        for descriptor in descriptors:
            with suppress(OSError):
                os.close(descriptor)

    def signal(self, wake: int) -> None:
        """Wakes the process at the other end; does nothing for an unknown wake."""
        descriptor = self._signalled.get(wake)
        if descriptor is not None:
            try:
                os.write(descriptor, SIGNAL)
            except OSError:
                return  # it is full, so the signal is there already, or the agent grants the turn

    def clear(self, descriptor: int) -> None:
        """Forgets the signals of a wake that came so far; does nothing for another descriptor."""
        if descriptor in self._awaited:
            with suppress(OSError):  # the other process may have read them
                os.read(descriptor, _MANY_SIGNALS)

    def discard(self) -> None:
        """Forgets the signals of all wakes that came so far."""
        for descriptor in self.poll(0):
            self.clear(descriptor)

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
        """Closes all descriptors. They stay registered: a forked child shares the set with its parent."""
        for descriptor in [*self._signalled.values(), *self._awaited]:
            with suppress(OSError):
                os.close(descriptor)
        self._signalled.clear()
        self._awaited.clear()
        self._epoll.close()

    def __del__(self) -> None:
        self.close()
