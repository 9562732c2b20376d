"""What may come between a replica and the API server while another one is well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tests.support.api_faults.fault import Answer, Cut, Fault, Request


class CutOff(Fault):
    """While ``is_cut``, nothing passes in either direction and no error is returned: requests and watches hang."""

    def __init__(self) -> None:
        self._passable = asyncio.Event()
        self._passable.set()

    def cut(self) -> None:
        """From now on nothing passes."""
        self.fired = True
        self._passable.clear()

    def mend(self) -> None:
        """Let everything pass again; what was under way is lost."""
        self._passable.set()

    async def before(self, request: Request) -> Request | Answer:
        """Lose requests."""
        await self._lose()
        return request

    async def after(self, request: Request, answer: Answer) -> Answer:
        """Lose answers."""
        await self._lose()
        return answer

    async def events(self, request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Lose events."""
        async for line in lines:
            await self._lose()
            yield line

    async def _lose(self) -> None:
        if not self._passable.is_set():
            await self._passable.wait()
            raise Cut


class Stopping(Fault):
    """Reports the arrival of a relevant write and holds it until it is released, so that its sender can be
    stopped meanwhile."""

    def __init__(self) -> None:
        self.armed = False
        self.held = asyncio.Event()
        self._let_go = asyncio.Event()

    def let_go(self) -> None:
        """Release the held writes."""
        self._let_go.set()

    async def before(self, request: Request) -> Request | Answer:
        """Hold the first relevant write after arming, and those that arrive while it is held."""
        if request.of_consequence and self.armed:
            self.fired = True
            self.held.set()
            await self._let_go.wait()
        return request


class LeaseSeen(Fault):
    """Nothing goes wrong; says when a replica has seen a lease."""

    def __init__(self) -> None:
        self.seen = asyncio.Event()

    async def after(self, request: Request, answer: Answer) -> Answer:
        """Take note of a lease that was read."""
        if request.of_lease and request.method == "GET" and answer.status == 200:
            self.seen.set()
        return answer
