"""Every status that the jobs of a namespace have had, so that a test which is held up misses none."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from laneway.operator.state.resources import TRAINING_JOBS
from laneway.operator.watch.apiserver import ApiServer, Raw

from tests.support.operator.waiting import until
from tests.support.operator.watching import follow


class JobHistory:
    """The statuses by job, in the order in which the API server stored them. A test reads them forwards."""

    def __init__(self) -> None:
        self._statuses: defaultdict[str, list[Raw]] = defaultdict(list)
        self._read: Counter[str] = Counter()
        """By job: the number of statuses before the one that was returned last."""

    def take(self, kind: str, raw: Raw) -> None:
        """Record an event of a watch: its type and its object."""
        if kind != "DELETED":
            self._statuses[raw["metadata"]["name"]].append(raw.get("status") or {})

    async def until(self, job: str, what: str, holds: Callable[[Raw], bool]) -> Raw:
        """Return the first status for which ``holds`` is true, from the one on that was returned last."""

        async def look() -> Raw | None:
            statuses = self._statuses[job]
            for at in range(self._read[job], len(statuses)):
                if holds(statuses[at]):
                    self._read[job] = at
                    return statuses[at]
            return None

        return await until(f"{job}: {what}", look)

    async def until_condition(self, job: str, kind: str, status: str, reason: str | None = None) -> Raw:
        """Return the first status with this condition."""

        def holds(found: Raw) -> bool:
            condition = condition_of(found, kind)
            return condition.get("status") == status and reason in (None, condition["reason"])

        return await self.until(job, f"{kind} is {status} {reason or ''}", holds)

    async def until_waiting(self, job: str, reason: str, attempt: int | None = None) -> Raw:
        """Return the first status that waits for this reason, after that attempt."""

        def holds(found: Raw) -> bool:
            waiting = found.get("waiting") or {}
            return waiting.get("reason") == reason and attempt in (None, found.get("attempt"))

        return await self.until(job, f"waits for {reason} after attempt {attempt}", holds)


def condition_of(status: Raw, kind: str) -> Raw:
    """Return a condition of a status; empty where it is not set."""
    return next((each for each in status.get("conditions", ()) if each["type"] == kind), {})


@asynccontextmanager
async def recorded(api: ApiServer, namespace: str) -> AsyncIterator[JobHistory]:
    """Record the statuses of a namespace's jobs from now on, while the block runs."""
    history, path = JobHistory(), TRAINING_JOBS.path(namespace)
    version = (await api.request("GET", path))["metadata"]["resourceVersion"]
    following = asyncio.create_task(follow(api, path, version, history.take))
    try:
        yield history
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
