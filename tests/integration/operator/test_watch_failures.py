"""kopf's watches when the API server ends them in a way that kopf does not expect, as a real API server's proxy may."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.resources import TRAINING_JOBS
from laneway.operator.watch.apiserver import connect
from laneway.operator.watch.handlers import watch

from tests.support.api_faults.fault import Answer, Fault, Request, refusal
from tests.support.api_faults.fault_proxy import FaultProxy, serving
from tests.support.api_faults.journal import Journal
from tests.support.api_faults.namespace_view import NamespaceView
from tests.support.api_faults.upstream import upstream
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until

GROUP_VERSION = "/" + TRAINING_JOBS.api_version
_INTERNAL_ERROR = {"type": "ERROR", "object": json.loads(refusal(500, "InternalError", "etcd is away").body)}


_REFUSALS = {
    "refused": refusal(410, "Expired", "too old resource version"),
    "away": refusal(404, "NotFound", "the server could not find the requested resource"),
}


class FailsOnce(Fault):
    """The first watch of TrainingJobs fails."""

    def __init__(self, how: str) -> None:
        self._how = how
        self._away = 2

    async def before(self, request: Request) -> Request | Answer:
        """Refuse it, or have the kind away for a while, as while its CRD is replaced."""
        if self._how == "away" and self.fired and self._away and request.path.endswith(GROUP_VERSION):
            self._away -= 1
            return refusal(404, "NotFound", "the server could not find the requested resource")
        if self._how in _REFUSALS and self._is_the_first(request):
            return _REFUSALS[self._how]
        return request

    async def events(self, request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Show an error, or half an event."""
        if self._how not in _REFUSALS and self._is_the_first(request):
            yield json.dumps(_INTERNAL_ERROR).encode()[: None if self._how == "error" else -20] + b"\n"
            return
        async for line in lines:
            yield line

    def _is_the_first(self, request: Request) -> bool:
        if self.fired or not request.watches or request.collection != TRAINING_JOBS.plural:
            return False
        self.fired = True
        return True


@pytest.mark.parametrize("how", ["refused", "away", "error", "half an event"])
async def test_a_watch_that_kopf_gives_up_is_begun_again(
    how: str, operator_kubeconfig: Path, cluster: PlayedCluster, tmp_path: Path
) -> None:
    fault, cache, lists = FailsOnce(how), ClusterCache(lambda: 0.0), []
    async with upstream(operator_kubeconfig) as up:
        proxy = FaultProxy(up, NamespaceView(cluster.namespace), fault, Journal())
        async with serving(proxy, tmp_path) as kubeconfig, await connect(kubeconfig) as api:
            watches = asyncio.create_task(watch(cache, api, lambda *_: None, lambda: lists.append(1)))
            try:
                await until("a watch has failed", lambda: _so(fault.fired))
                await cluster.submit("late", workers=1)
                await until("the job is seen", lambda: _so(bool(cache.jobs.records())))
                assert lists, "deletions may have been missed"
            finally:
                watches.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await watches


async def _so(value: bool) -> bool:
    return value
