"""The operator is killed at its n-th write: before it goes out, when it was carried out and not answered, or after the answer."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from tests.support.api_faults.fault import Answer, Cut, Fault, Request


class Moment(StrEnum):
    """When the operator is killed."""

    BEFORE = "before"
    """The write has not gone out."""

    UNHEARD = "unheard"
    """The write was carried out, and the operator does not know."""

    AFTER = "after"
    """The operator has the answer."""


class KilledAt(Fault):
    """Kills at the n-th relevant write, and again at regular intervals of writes: each life continues where
    the last one ended."""

    def __init__(self, number: int, apart: int, moment: Moment, kill: Callable[[], None]) -> None:
        """Kill by ``kill``, which starts the operator again as well. The first write has the number 1."""
        self._number = number
        self._apart = apart
        self._moment = moment
        self._kill = kill
        self._written = 0
        self._ended: set[str] = set()
        self._marked: set[int] = set()

    async def before(self, request: Request) -> Request | Answer:
        """Count, and kill before the write goes out where that is the moment."""
        if request.writer in self._ended:
            raise Cut  # it was in flight when its sender died
        if not request.of_consequence:
            return request
        self._written += 1
        if self._written >= self._number and (self._written - self._number) % self._apart == 0:
            self._marked.add(id(request))
            if self._moment is Moment.BEFORE:
                self._end(request)
                raise Cut
        return request

    async def after(self, request: Request, answer: Answer) -> Answer:
        """Kill before the answer is heard where that is the moment."""
        if id(request) in self._marked and self._moment is Moment.UNHEARD:
            self._end(request)
            raise Cut
        return answer

    async def sent(self, request: Request) -> None:
        """Kill after the answer."""
        if id(request) in self._marked and self._moment is Moment.AFTER:
            self._end(request)

    def _end(self, request: Request) -> None:
        self.fired = True
        self._marked.clear()
        if request.writer not in self._ended:
            self._ended.add(request.writer)
            self._kill()


class KilledAtEvery(Fault):
    """Each life of the operator ends with its first write of consequence, carried out and unheard."""

    def __init__(self, kill: Callable[[], None]) -> None:
        self._kill = kill
        self._ended: set[str] = set()
        self.lives = 0

    async def after(self, request: Request, answer: Answer) -> Answer:
        """Kill."""
        if not request.of_consequence or answer.status >= 400:
            return answer
        if request.writer not in self._ended:
            self._ended.add(request.writer)
            self.fired = True
            self.lives += 1
            self._kill()
        raise Cut
