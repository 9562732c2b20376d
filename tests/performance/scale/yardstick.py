"""The part of a run before the operator starts: how many pods a second are bound without it."""

from __future__ import annotations

from functools import partial

from laneway.operator.state.resources import PODS

from tests.performance.scale.bare_client import BareClient, create, create_and_bind
from tests.performance.scale.bound_pods import BoundPods
from tests.performance.scale.client import delete_if_there, for_each, watching
from tests.performance.scale.run import BARE, Run
from tests.performance.scale.submission import until_bound


async def bound_by_client(run: Run) -> BareClient:
    """Have the bare client fill all GPUs with pods that it binds itself, and remove them."""
    run.say(f"a bare client creates and binds {run.gpus} pods")
    bare = await create_and_bind(run.api, BARE, run.gpus)
    run.say(f"  {bare.pods_a_second:.0f} pods a second")
    await _remove(run)
    return bare


async def bound_by_scheduler(run: Run) -> float:
    """Return the pods bound a second where the bare client leaves that to kube-scheduler; remove them."""
    run.say(f"a bare client creates {run.gpus} pods, kube-scheduler binds them")
    pods = BoundPods()
    async with watching(run.api, PODS.path(BARE), pods.take):
        wanted = await create(run.api, BARE, run.gpus)
        await until_bound(run, pods, lambda: len(pods.bound) >= wanted)
    run.say(f"  {pods.a_second:.0f} pods a second")
    await _remove(run)
    return pods.a_second


async def _remove(run: Run) -> None:
    listed = await run.api.request("GET", PODS.path(BARE))
    at_once = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    found = [pod["metadata"]["name"] for pod in listed["items"]]
    del listed
    await for_each(partial(delete_if_there, run.api, PODS.path(BARE, name), at_once) for name in found)
