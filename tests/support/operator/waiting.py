"""Waiting for what a real API server shows, with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Value = TypeVar("Value")


async def until(
    what: str, look: Callable[[], Awaitable[Value | None]], seconds: float = 60.0, poll_seconds: float = 0.05
) -> Value:
    """Return the first thing that is seen and is not None or False; fail when the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        seen = await look()
        if seen is not None and seen is not False:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        await asyncio.sleep(poll_seconds)


async def holds_for(what: str, look: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Fail when something ceases to hold within the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert await look(), what
        await asyncio.sleep(0.05)
