"""The part of a run in which jobs are deleted and others submitted. The garbage collector removes the pods."""

from __future__ import annotations

import asyncio
import time

from tests.performance.scale.run import Run

CHURN_SECONDS = 30.0
JOBS_A_SECOND = 2.0
"""The number that end, and the number that come."""


async def churn(run: Run) -> None:
    """Delete jobs that run, and submit as many of the same sizes."""
    run.say(f"{JOBS_A_SECOND:.0f} jobs a second end, and as many come")
    placed = await run.placed_jobs()
    end = time.monotonic() + CHURN_SECONDS
    while time.monotonic() < end and placed:
        name = placed.pop()["metadata"]["name"]
        await run.delete_job(name)
        await run.submit(run.workers[name])
        await asyncio.sleep(1 / JOBS_A_SECOND)
