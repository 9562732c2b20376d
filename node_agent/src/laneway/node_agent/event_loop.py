"""The event loop: one thread, one epoll, one heap of timers. All decisions are made here, so none needs a
lock.

A hand-off of a turn passes here twice, so only a dictionary look-up lies between a readable socket and its
callback. (asyncio puts a handle, a context and a queue in between.)
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import select
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from laneway.node_agent.answer_wait import is_answered_within
from laneway.node_agent.clock import Clock

Result = TypeVar("Result")
_log = logging.getLogger(__name__)
_FAILED = "event loop callback failed"


class Timer:
    """A callback that is due at some time, unless it is cancelled."""

    __slots__ = ("_callback", "due_seconds")

    def __init__(self, due_seconds: float, callback: Callable[[], None]) -> None:
        self.due_seconds = due_seconds
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Make sure that the callback is not called any more."""
        self._callback = None

    @property
    def is_cancelled(self) -> bool:
        """Return whether nothing is left to call."""
        return self._callback is None

    def fire(self) -> None:
        """Call it, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class EventLoop:
    """Calls back for readable descriptors, due timers and work from other threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._epoll = select.epoll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._posted: deque[Callable[[], None]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stopped = False
        self.add_reader(self._wake, self._run_posted)

    def add_reader(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call back, on the loop's thread, for as long as the descriptor is readable."""
        self._readers[descriptor] = callback
        self._epoll.register(descriptor, select.EPOLLIN)

    def remove_reader(self, descriptor: int) -> None:
        """Remove a descriptor; call this before closing it. An unknown one is ignored."""
        if self._readers.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def call_at(self, due_seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back, on the loop's thread, when CLOCK_MONOTONIC passes ``due_seconds``."""
        timer = Timer(due_seconds, callback)
        heapq.heappush(self._timers, (due_seconds, next(self._order), timer))
        return timer

    def post(self, work: Callable[[], None]) -> None:
        """Run work on the loop's thread. May be called from any thread."""
        self._posted.append(work)
        os.eventfd_write(self._wake, 1)

    def ask(self, question: Callable[[], Result], timeout_seconds: float = 5.0) -> Result:
        """Run a question on the loop's thread and return its answer. Must not be called on that thread.

        Raises:
            TimeoutError: the loop does not answer (it has stopped, or is stuck).
        """
        answer: Future[Result] = Future()

        def work() -> None:
            try:
                answer.set_result(question())
            except Exception as error:  # re-raised on the asking thread
                answer.set_exception(error)

        self.post(work)
        if not is_answered_within(answer, timeout_seconds):
            raise TimeoutError(f"the event loop does not answer within {timeout_seconds:g} s")
        return answer.result()

    def stop(self) -> None:
        """Make :meth:`run` return after the callbacks that are due. May be called from any thread or signal handler."""
        self._stopped = True
        os.eventfd_write(self._wake, 1)

    def run(self) -> None:
        """Call back until :meth:`stop`. A callback that raises is logged and does not end the loop."""
        while not self._stopped:
            self.run_once()

    def run_once(self) -> None:
        """Wait for the next event and handle everything that is due."""
        for descriptor, _ in self._epoll.poll(self._patience_seconds()):
            callback = self._readers.get(descriptor)
            if callback is None:
                continue
            try:  # inlined _guarded: each packet passes here
                callback()
            except Exception:
                _log.exception(_FAILED)
        if self._timers:
            self._fire_due()

    def close(self) -> None:
        """Release the descriptors."""
        self._epoll.close()
        os.close(self._wake)

    def _patience_seconds(self) -> float:
        timers = self._timers
        while timers and timers[0][2].is_cancelled:  # cancelled timers cause no wake-up
            heapq.heappop(timers)
        if not timers:
            return -1.0
        # epoll counts in milliseconds and rounds up, so a timer never fires early and spins.
        return max(0.0, timers[0][0] - self._clock.monotonic())

    def _fire_due(self) -> None:
        now_seconds = self._clock.monotonic()
        while self._timers and self._timers[0][0] <= now_seconds:
            self._guarded(heapq.heappop(self._timers)[2].fire)

    def _run_posted(self) -> None:
        os.eventfd_read(self._wake)
        for _ in range(len(self._posted)):
            self._guarded(self._posted.popleft())

    @staticmethod
    def _guarded(callback: Callable[[], Any]) -> None:
        try:
            callback()
        except Exception:
            _log.exception(_FAILED)
