"""The parts of a run in which nothing waits: how soon a job that is submitted is placed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Set
from contextlib import suppress
from functools import partial
from typing import Any

from laneway.operator.state.resources import TRAINING_JOBS
from laneway.operator.watch.apiserver import Raw

from tests.performance.scale.client import for_each, watching
from tests.performance.scale.operator_figures import at_ratio
from tests.performance.scale.run import NAMESPACE, Run, is_placed

_LOADED_PERCENT = 80
"""Of the jobs that run, the part that stays."""

_GPUS_FOR_EACH_JOB = 40
_MOST_JOBS = 200
_JOBS_A_SECOND = 2.0
_PLACED_WITHIN_SECONDS = 60.0


async def make_room(run: Run) -> None:
    """Delete the jobs that wait and some that run, until what is left runs and GPUs are free."""
    listed = await run.api.request("GET", TRAINING_JOBS.path(NAMESPACE))
    there = [(job["metadata"]["name"], is_placed(job)) for job in listed["items"]]
    del listed
    placed = [name for name, runs in there if runs]
    kept = set(placed[: len(placed) * _LOADED_PERCENT // 100])
    run.say(f"of {len(there)} jobs all but {len(kept)} that run are deleted")
    await for_each(partial(run.delete_job, name) for name, _ in there if name not in kept)
    await run.until_settled()


class _Placements:
    """Notes when each job is first seen with GPUs."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}
        """By name, in seconds of the monotonic clock."""

        self._news = asyncio.Event()

    def take(self, kind: str, job: Raw) -> None:
        """Take note of an event."""
        if kind != "DELETED" and is_placed(job):
            self.seen.setdefault(job["metadata"]["name"], time.monotonic())
            self._news.set()

    async def until(self, jobs: Set[str]) -> None:
        """Wait until all of these were seen, or too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PLACED_WITHIN_SECONDS):
                while not jobs <= self.seen.keys():
                    self._news.clear()
                    await self._news.wait()


async def reaction(run: Run) -> dict[str, Any]:
    """Submit jobs of one worker, one after another; return the figures of the part, with the times until they were placed."""
    number = max(10, min(_MOST_JOBS, run.gpus // _GPUS_FOR_EACH_JOB))
    run.say(f"{number} jobs of one worker come, {_JOBS_A_SECOND:.0f} a second")
    placements, sent = _Placements(), dict[str, float]()

    async def submit_all() -> None:
        for _ in range(number):
            now = time.monotonic()
            sent[await run.submit(1)] = now
            await asyncio.sleep(1 / _JOBS_A_SECOND)
        await placements.until(sent.keys())

    async with watching(run.api, TRAINING_JOBS.path(NAMESPACE), placements.take):
        found = await run.phase(submit_all)
    milliseconds = sorted(
        1e3 * (placements.seen[name] - at) for name, at in sent.items() if name in placements.seen
    )
    return found | {
        "submitted_jobs": number,
        "placed_jobs": len(milliseconds),
        "placed_p50_milliseconds": at_ratio(milliseconds, 0.5),
        "placed_p99_milliseconds": at_ratio(milliseconds, 0.99),
    }
