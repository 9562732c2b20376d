"""Who gives GPUs back, or is to, is written about before whoever is to have them next.

Statuses of one cycle go out side by side, and those of the cycle before may still be under way. A status that lets a job start, or go
on, waits until those have landed by which others free its GPUs: so nobody who reads the API server sees a GPU promised twice, and an
operator that dies in between has not given away what nobody had given back. Nor is a job told that others make way for it before these
have been. It waits for these and for nothing else.
"""

from __future__ import annotations

import asyncio

from laneway.operator.statements import JobStatement


class Releases:
    """What is being given by statuses under way: see ``JobStatement.gives``."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, asyncio.Future[bool]]] = {}
        """By what is given, and the uid of the job that gives it."""

    def begin(self, statement: JobStatement) -> None:
        """Note that a status is about to be written."""
        if statement.write and statement.gives:
            landed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            for given in statement.gives:
                self._of.setdefault(given, {})[statement.job.uid] = landed

    def end(self, statement: JobStatement, *, written: bool) -> None:
        """Note what came of it; what is said first counts."""
        for given in statement.gives:
            by = self._of.get(given, {})
            landed = by.pop(statement.job.uid, None)
            if not by:
                self._of.pop(given, None)
            if landed is not None and not landed.done():
                landed.set_result(written)

    async def landed(self, statement: JobStatement) -> bool:
        """Wait until all has been given that a job needs; return whether all of that was written."""
        waits = {landed for needed in statement.needs for landed in self._of.get(needed, {}).values()}
        return all([await each for each in waits])
