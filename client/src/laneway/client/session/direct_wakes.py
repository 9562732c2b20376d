"""Wakes between the processes of a lane: the holder of a turn wakes its successor without the agent.

A wake is an eventfd that the agent creates for one pair of processes. A signal alone allows nothing: it
counts only while the page says that this wake announces a turn (docs/contracts.md, "The page").

The wakes are watched edge-triggered: a signal is an event before it is read. So a woken process begins after one
system call, and reads the signal when it releases its turn.
"""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from typing import Final, Optional

SIGNAL: Final = (1).to_bytes(8, sys.byteorder)
MAX_STRAY_SIGNALS: Final = 1000
"""Signals without effect, one after the other, after which a wake is closed. The other process may signal as
often as it likes, and each signal costs this one's time."""
MANY_SIGNALS: Final = 4096
"""Bytes: all signals that came are read together."""
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
        self._unread: list[int] = []
        """The descriptors whose signals announced turns."""

    def watch(self, descriptor: int) -> None:
        """Makes `poll` return for input of another descriptor as well, until that is closed."""
        self._epoll.register(descriptor, select.EPOLLIN)

    def poll(self, seconds: Optional[float]) -> list[int]:
        """Returns the descriptors with input, and those of wakes that were signalled since the last call.

        Args:
            seconds: how long to wait at most; None for no limit.
        """
        return [found for found, _event in self._epoll.poll(seconds, MAX_EVENTS)]

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
            self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLET)

    def remove(self, wake: int) -> None:
        """Closes a wake; an unknown one is ignored."""
        descriptors = [found for found, number in self._awaited.items() if number == wake]
        for descriptor in descriptors:
            del self._awaited[descriptor]
            with suppress(OSError):  # closing it is not enough: the other process has the eventfd as well
                self._epoll.unregister(descriptor)
        if wake in self._signalled:
            descriptors.append(self._signalled.pop(wake))
        for descriptor in descriptors:
            with suppress(OSError):
                os.close(descriptor)

    def signal(self, wake: int) -> None:
        """Wakes the process at the other end; does nothing for an unknown wake."""
        descriptor = self._signalled.get(wake)
        if descriptor is None:
            return
        try:
            os.write(descriptor, SIGNAL)
        except OSError:
            return  # one of the two processes has filled the counter, so the agent grants their turns

    def discard(self) -> None:
        """Reads the signals that came so far. None of them announces a later turn."""
        unread = [*self._unread, *(found for found, _event in self._epoll.poll(0, MAX_EVENTS))]
        self._unread.clear()
        for descriptor in unread:
            if descriptor in self._awaited:
                _read(descriptor)

    def accept(self, descriptor: int) -> None:
        """Records that a signal announced a turn. It is read later."""
        self._stray_signals = 0
        self._unread.append(descriptor)

    def reject(self, wake: int, descriptor: int) -> None:
        """Reads a signal that announced nothing, and closes its wake after too many."""
        _read(descriptor)
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


def _read(descriptor: int) -> None:
    with suppress(OSError):  # the other process may have read the signal
        os.read(descriptor, MANY_SIGNALS)
