"""Work at the API server that no cycle waits for: lists, workers without a job, dry runs of templates."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from laneway.operator.execute.writer import FencedOff
from laneway.operator.pacing import RETRY_CYCLE_SECONDS
from laneway.operator.watch.apiserver import ApiError, UnknownOutcome
from laneway.operator.watch.relist import ListedThePast

logger = logging.getLogger(__name__)

Work = Callable[[], Awaitable[bool]]
"""Returns whether a cycle is to follow."""


class Upkeep:
    """Runs each kind of such work, one of a kind at a time."""

    def __init__(self, wake: Callable[[], object], fenced_off: Callable[[], object]) -> None:
        """Call ``wake`` to have a cycle run, and ``fenced_off`` where a write was not made because this replica does not lead."""
        self._wake = wake
        self._fenced_off = fenced_off
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed: set[str] = set()
        """Kinds whose last work failed at the API server."""

        self._error: Exception | None = None

    def check(self) -> None:
        """Raise what work has raised that no API server can be the cause of."""
        if self._error is not None:
            raise self._error

    def under_way(self, kind: str) -> bool:
        """Whether such work is under way."""
        return kind in self._tasks

    def fails(self, kind: str) -> bool:
        """Whether the last such work failed at the API server."""
        return kind in self._failed

    def begin(self, kind: str, work: Work) -> None:
        """Begin work, unless such work is under way. Where the API server fails, it ends a while later, and a cycle follows."""
        if kind not in self._tasks:
            self._tasks[kind] = asyncio.create_task(self._run(kind, work), name=kind)

    async def end(self) -> None:
        """Cancel all work, and wait for its end."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._tasks.clear()  # one that had not begun cleared nothing
        self._failed.clear()

    async def _run(self, kind: str, work: Work) -> None:
        wakes = True
        try:
            wakes = await work()
            self._failed.discard(kind)
        except FencedOff as error:
            logger.warning("upkeep ended early", extra={"work": kind, "problem": str(error)})
            self._fenced_off()
        except (ApiError, UnknownOutcome, ListedThePast) as error:
            self._failed.add(kind)
            logger.warning("upkeep failed at the API server", extra={"work": kind, "problem": str(error)})
            await asyncio.sleep(RETRY_CYCLE_SECONDS)
        except Exception as error:
            self._error = error
        finally:
            del self._tasks[kind]
            if wakes:
                self._wake()
