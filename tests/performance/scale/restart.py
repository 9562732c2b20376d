"""The part of a run in which the operator is killed and started again, with GPUs that became free meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Set
from dataclasses import asdict
from functools import partial
from typing import Any

from laneway.api.rfc3339 import format_time
from laneway.operator.state.resources import PODS
from laneway.operator.watch.apiserver import Raw

from tests.performance.scale.client import for_each, watching
from tests.performance.scale.operator_figures import counts, decisions, moment_of
from tests.performance.scale.run import NAMESPACE, Run

_FREED_PERCENT = 10
"""Of the jobs that run: their workers succeed while no operator runs."""

_FIRST_START_WITHIN_SECONDS = 120.0
_AFTER_SECONDS = 30.0
"""Measured after the first start."""


async def restart(run: Run) -> dict[str, Any]:
    """Kill the operator and start it again; return how long its first steps take, in seconds.

    Raises:
        RuntimeError: it starts no job.
    """
    run.operator.kill()
    ended = await _end_jobs(run)
    run.say(f"the operator was killed, {ended} jobs ended, and it is started again")
    # No operator runs that could create pods between the list and the watch.
    listed = await run.api.request("GET", PODS.path(NAMESPACE))
    pods, logged = _NewPods({pod["metadata"]["uid"] for pod in listed["items"]}), len(run.operator.log)
    del listed
    async with watching(run.api, PODS.path(NAMESPACE), pods.take):
        began = time.time()
        run.operator.start()
        try:
            async with asyncio.timeout(_FIRST_START_WITHIN_SECONDS):
                await pods.one_is_bound.wait()
        except TimeoutError:
            raise RuntimeError(f"no job was started: {run.operator.log[logged:][-3000:]}") from None
        await asyncio.sleep(_AFTER_SECONDS)
    return {"ended_jobs": ended, **_figures(run, run.operator.log[logged:], began, pods.first_bound)}


def _figures(run: Run, log: str, began: float, first_bound: float) -> dict[str, Any]:
    messages = ("serving metrics and health", "this replica leads", "cycle")
    serves, leads, first_cycle = (moment_of(log, message) for message in messages)
    if serves is None or leads is None or first_cycle is None:
        raise RuntimeError(f"the operator logged no cycle: {log[-3000:]}")
    used, counted = run.of_operator(), counts(run.operator)
    took = time.time() - began
    return {
        "seconds": took,
        "to_serving_seconds": serves - began,
        "to_lead_seconds": leads - began,
        "from_lead_to_first_start_seconds": first_bound - leads,
        "from_lead_to_end_of_first_cycle_seconds": first_cycle - leads,
        "to_first_start_seconds": first_bound - began,
        "decisions": asdict(decisions(log)),
        "preemptions": counted.preemptions,
        "api_writes": dict(sorted(counted.writes.items())),
        "operator_cpu_seconds": used.cpu_seconds,
        "operator_cpu_percent": 100 * used.cpu_seconds / took,
        "operator_memory_mib": used.memory_mib,
        "operator_peak_memory_mib": used.peak_memory_mib,
    }


class _NewPods:
    """Waits for the first pod that was not there before and is bound."""

    def __init__(self, old: Set[str]) -> None:
        self._old = old
        self.first_bound = 0.0
        """In seconds since 1970."""

        self.one_is_bound = asyncio.Event()

    def take(self, kind: str, pod: Raw) -> None:
        """Take note of an event."""
        new = pod["metadata"]["uid"] not in self._old
        if kind != "DELETED" and new and pod["spec"].get("nodeName") and not self.one_is_bound.is_set():
            self.first_bound = time.time()
            self.one_is_bound.set()


async def _end_jobs(run: Run) -> int:
    """Have the workers of some jobs end with code 0, as their kubelets would say; return how many jobs."""
    running = [
        job["metadata"]["name"] for job in await run.placed_jobs() if job["status"].get("state") == "Running"
    ]
    ending = running[: max(1, len(running) * _FREED_PERCENT // 100)]
    workers = [f"{name}-{rank}" for name in ending for rank in range(run.workers[name])]
    await for_each(partial(_succeed, run, worker) for worker in workers)
    return len(ending)


async def _succeed(run: Run, pod: str) -> None:
    ended = {"exitCode": 0, "reason": "Completed", "finishedAt": format_time(time.time())}
    container = {
        "name": "trainer",
        "image": "",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    await run.api.request(
        "PATCH",
        PODS.path(NAMESPACE, pod, "status"),
        body={"status": {"phase": "Succeeded", "containerStatuses": [container]}},
        content_type="application/merge-patch+json",
    )
