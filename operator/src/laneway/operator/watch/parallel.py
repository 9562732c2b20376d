"""Several requests to the API server at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from laneway.operator.watch.apiserver import ApiError, UnknownOutcome

_AT_A_TIME = 10


async def together(steps: Iterable[Awaitable[None]]) -> None:
    """Run steps that do not depend on one another; all end before an error is raised."""
    results = await asyncio.gather(*steps, return_exceptions=True)
    errors = [each for each in results if isinstance(each, BaseException)]
    if errors:  # a fault of our own is not to hide behind one of the API server
        raise min(errors, key=lambda error: isinstance(error, ApiError | UnknownOutcome))


async def some_at_a_time(steps: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Run steps, few at a time: thousands must not wait for connections. After an error none is begun in place of the one that failed, and the error is raised
    when all others have ended."""
    waiting = iter(steps)

    async def run() -> None:
        for step in waiting:
            await step()

    await together(run() for _ in range(_AT_A_TIME))
