"""Patience with an API server that is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from laneway.operator.watch.apiserver import ApiError, UnknownOutcome


async def patiently(step: Callable[[], Awaitable[Any]], accepted: tuple[int, ...] = ()) -> Any:
    """Do a step through an outage of the API server; return None where it answers with one of the accepted errors."""
    while True:
        try:
            return await step()
        except UnknownOutcome:
            await asyncio.sleep(0.1)
        except ApiError as error:
            if error.status in accepted:
                return None
            if error.status < 500 and error.status != 429:
                raise
            await asyncio.sleep(0.1)
