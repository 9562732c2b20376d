"""Writes the releasing job's status before the receiving job's.

The statuses of one cycle are written in parallel, and those of the cycle before may still be in flight. A status that lets a job
start or resume waits for the statuses that free its GPUs, and for nothing else. So no reader of the API server sees a GPU
promised twice, and an operator that dies in between has given away nothing that was not released. A preemptor's status waits
for its victims' statuses in the same way.
"""

from __future__ import annotations

import asyncio

from laneway.operator.cycle.writes import JobWrite


class WriteOrder:
    """What statuses in flight release: see ``JobWrite.releases``."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, asyncio.Future[bool]]] = {}
        """By what is released, and the uid of the releasing job."""

    def begin(self, write: JobWrite) -> None:
        """Note that a status is about to be written."""
        if write.writes_status and write.releases:
            landed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            for released in write.releases:
                self._of.setdefault(released, {})[write.job.uid] = landed

    def end(self, write: JobWrite, *, written: bool) -> None:
        """Note its outcome; the first one counts."""
        for released in write.releases:
            by = self._of.get(released, {})
            landed = by.pop(write.job.uid, None)
            if not by:
                self._of.pop(released, None)
            if landed is not None and not landed.done():
                landed.set_result(written)

    async def landed(self, write: JobWrite) -> bool:
        """Wait for all that a status depends on; return whether all of that was written."""
        waits = {landed for needed in write.depends_on for landed in self._of.get(needed, {}).values()}
        return all([await each for each in waits])
