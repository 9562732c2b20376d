"""The part of a run in which all jobs are submitted at once, until all that fit run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from laneway.operator.state.resources import PODS

from tests.performance.scale import objects
from tests.performance.scale.bare_client import BareClient
from tests.performance.scale.bound_pods import BoundPods
from tests.performance.scale.client import for_each, watching
from tests.performance.scale.run import NAMESPACE, Run

_STALLED_SECONDS = 60.0
"""When no pod has been bound for so long, it is over."""

_FULL_PERCENT = 98.0
"""Of the GPUs: gangs, selectors and shares leave small rests."""


async def submission(run: Run, bare: BareClient) -> dict[str, Any]:
    """Submit all jobs; return what that took, and how the operator compares with the bare client."""
    run.say(f"submitting {run.jobs} jobs")
    pods, began = BoundPods(), time.monotonic()
    submitted_in = 0.0

    async def submit_and_wait() -> None:
        nonlocal submitted_in
        sizes = list(objects.gang_sizes(run.jobs))
        await for_each(partial(run.submit, workers) for workers in sizes)
        submitted_in = time.monotonic() - began
        run.say(f"  submitted in {submitted_in:.0f} s; {len(pods.bound)} pods are bound")
        wanted = min(_FULL_PERCENT * run.gpus, 100.0 * sum(sizes))
        await until_bound(run, pods, lambda: pods.running_percent >= wanted)

    async with watching(run.api, PODS.path(NAMESPACE), pods.take):
        found = await run.phase(submit_and_wait)
    if not pods.bound:
        raise RuntimeError(f"no pod was bound: {run.operator.log[-3000:]}")
    return found | {
        "submission_seconds": submitted_in,
        **_of_the_bare_client(pods, began, submitted_in, bare),
    }


def _of_the_bare_client(
    pods: BoundPods, began: float, submitted_in: float, bare: BareClient
) -> dict[str, Any]:
    times = sorted(pods.bound.values())
    after = [moment for moment in times if moment > began + submitted_in]
    rate_after = len(after) / (after[-1] - began - submitted_in) if after else 0.0
    return {
        "bound_pods": len(times),
        "first_bound_after_seconds": times[0] - began,
        "all_bound_after_seconds": times[-1] - began,
        "pods_bound_a_second": pods.a_second,
        "of_the_bare_client_percent": 100 * pods.a_second / bare.pods_a_second,
        "after_submission": {
            "bound_pods": len(after),
            "pods_bound_a_second": rate_after,
            "of_the_bare_client_percent": 100 * rate_after / bare.pods_a_second,
        },
    }


async def until_bound(run: Run, pods: BoundPods, done: Callable[[], bool]) -> None:
    """Wait until it is done, or no more pods are bound."""
    shown, seen, changed_at = time.monotonic(), 0, time.monotonic()
    while not done():
        await asyncio.sleep(0.2)
        if len(pods.bound) + len(pods.started) != seen:
            seen, changed_at = len(pods.bound) + len(pods.started), time.monotonic()
        if time.monotonic() - changed_at > _STALLED_SECONDS:
            run.say(f"  nothing has been bound for {_STALLED_SECONDS:.0f} s")
            return
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            run.say(f"  {len(pods.bound)} pods are bound, {len(pods.started)} run")
