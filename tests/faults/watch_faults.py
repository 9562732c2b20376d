"""What a watch may do to the operator: show things late, twice, in another order, not at all, or end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from tests.support.api_faults.fault import Answer, Dice, Fault, Request, refusal

_GONE = {
    "type": "ERROR",
    "object": {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version",
        "reason": "Expired",
        "code": 410,
    },
}


class Delayed(Fault):
    """Events arrive late. The delay differs by kind and varies over time, so kinds overtake one another."""

    def __init__(self, seed: int, longest_seconds: float = 0.6) -> None:
        self._dice = Dice(seed)
        self._longest_seconds = longest_seconds

    async def events(self, request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Hold every line back; the order within a watch stays, as it always does."""
        async for line in lines:
            dice = self._dice.roll(request.collection)
            if dice.random() < 0.5:
                self.fired = True
                await asyncio.sleep(dice.uniform(0, self._longest_seconds))
            yield line


class Dropped(Fault):
    """Some events are never delivered; later ones are."""

    def __init__(self, seed: int, share: float = 0.3) -> None:
        self._dice = Dice(seed)
        self._share = share

    async def events(self, request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Leave lines out."""
        async for line in lines:
            if self._dice.roll(request.collection).random() < self._share:
                self.fired = True
                continue
            yield line


class Doubled(Fault):
    """Events come twice, and old ones come again: the one before, or the first of all."""

    def __init__(self, seed: int) -> None:
        self._dice = Dice(seed)

    async def events(self, request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Show lines again."""
        shown: list[bytes] = []
        async for line in lines:
            shown.append(line)
            yield line
            dice = self._dice.roll(request.collection)
            if dice.random() < 0.5:
                self.fired = True
                yield dice.choice([line, shown[-2:][0], shown[0], dice.choice(shown)])


class Broken(Fault):
    """Watches end after a few events: quietly, in the midst of a line, or with 410 Gone; and some may not begin at all."""

    def __init__(self, seed: int) -> None:
        self._dice = Dice(seed)

    async def before(self, request: Request) -> Request | Answer:
        """Refuse a watch now and then, because its start version is too old."""
        if request.watches and self._dice.roll("begin", request.collection).random() < 0.2:
            self.fired = True
            return refusal(410, "Expired", "too old resource version")
        return request

    async def events(self, request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """End it."""
        async for line in lines:
            dice = self._dice.roll(request.collection)
            if dice.random() < 0.25:
                self.fired = True
                how = dice.choice(["quietly", "in the midst", "gone", "lost"])
                if how == "in the midst":
                    yield line[: len(line) // 2]
                elif how == "gone":
                    yield json.dumps(_GONE).encode() + b"\n"
                elif how == "quietly":
                    yield line
                return
            yield line
