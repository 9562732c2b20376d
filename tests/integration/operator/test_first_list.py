"""A new leader's first list leaves out the jobs that have ended, as a real API server selects them."""

from __future__ import annotations

from pathlib import Path

from laneway.api.rfc3339 import format_time
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.resources import TRAINING_JOBS
from laneway.operator.watch.apiserver import ApiServer, connect
from laneway.operator.watch.relist import relist

from tests.support.operator.played_cluster import PlayedCluster


async def test_jobs_that_have_ended_are_not_in_the_first_list(
    operator_kubeconfig: Path, cluster: PlayedCluster
) -> None:
    for name in ("new", "runs", "completes", "failed", "goes"):
        await cluster.submit(name, workers=1)
    async with await connect(operator_kubeconfig, [cluster.namespace]) as api:
        await _set_state(cluster, "runs", "Running")
        await _set_state(cluster, "failed", "Failed")
        cold, warm = ClusterCache(lambda: 0.0), ClusterCache(lambda: 0.0)
        assert await _listed(api, cold) == {"new": False, "runs": False, "completes": False, "goes": False}

        await relist(api, warm)
        await _set_state(cluster, "completes", "Complete")
        await cluster.api.request("DELETE", TRAINING_JOBS.path(cluster.namespace, "goes"))
        want = {"new": False, "runs": False, "completes": True, "failed": True}
        assert await _listed(api, warm) == want
        await relist(api, cold)
        assert {job.name: job.finished for job in cold.jobs.records()} == want


async def _listed(api: ApiServer, cache: ClusterCache) -> dict[str, bool]:
    await relist(api, cache, ended_jobs=False)
    return {job.name: job.finished for job in cache.jobs.records()}


async def _set_state(cluster: PlayedCluster, name: str, state: str) -> None:
    condition = {"type": state, "status": "True", "reason": state, "message": ""}
    condition["lastTransitionTime"] = format_time(0.0)
    await cluster.api.request(
        "PATCH",
        TRAINING_JOBS.path(cluster.namespace, name, "status"),
        body={"status": {"state": state, "conditions": [condition]}},
        content_type="application/merge-patch+json",
    )
