"""A value that tasks can wait for; only the newest counts."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class LatestValue(Generic[T]):
    """Holds one value and a version that rises with each; used within one event loop."""

    def __init__(self) -> None:
        self._value: T | None = None
        self._version = 0
        self._next = asyncio.Event()

    @property
    def value(self) -> T | None:
        """The newest value, None before the first."""
        return self._value

    def publish(self, value: T) -> None:
        """Set the value and wake all waiting tasks."""
        self._value = value
        self._version += 1
        woken, self._next = self._next, asyncio.Event()
        woken.set()

    async def wait_newer(self, version: int) -> tuple[int, T]:
        """Wait for a value newer than the given version (0: any). Return its version and the value.

        Intermediate values may be skipped.
        """
        while self._version <= version or self._value is None:
            await self._next.wait()
        return self._version, self._value
