"""Who gives GPUs back is written about before whoever is to have them next.

Statuses of one cycle go out side by side, and those of the cycle before may still be under way. A status that lets a job start, or go
on, waits until those have landed by which others free its GPUs: so nobody who reads the API server sees a GPU promised twice, and an
operator that dies in between has not given away what nobody had given back. It waits for these and for nothing else.
"""

from __future__ import annotations

import asyncio

from laneway.operator.statements import JobStatement


class Releases:
    """GPUs that are being given back by statuses under way."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, asyncio.Future[bool]]] = {}
        """By GPU and job."""

    def begin(self, statement: JobStatement) -> None:
        """Note that a status is about to be written."""
        if statement.write and statement.frees:
            landed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            for gpu in statement.frees:
                self._of.setdefault(gpu, {})[statement.job.uid] = landed

    def end(self, statement: JobStatement, *, written: bool) -> None:
        """Note what came of it; what is said first counts."""
        for gpu in statement.frees:
            of_gpu = self._of.get(gpu, {})
            landed = of_gpu.pop(statement.job.uid, None)
            if not of_gpu:
                self._of.pop(gpu, None)
            if landed is not None and not landed.done():
                landed.set_result(written)

    async def landed(self, statement: JobStatement) -> bool:
        """Wait until the GPUs have been given back that a job takes; return whether all of that was written."""
        waits = {landed for gpu in statement.takes for landed in self._of.get(gpu, {}).values()}
        return all([await each for each in waits])
