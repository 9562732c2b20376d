"""Fifty gangs, no two of which fit together: each gets all of its GPUs or none, and all of them run in the
end.

Their kubelets are played here; on nodes that kwok plays, with kube-scheduler, the same is looked at by ``make test-rivals``, and on real kubelets
by ``tests/e2e/test_rivals.py``. What is checked at every moment: :mod:`tests.support.operator.rival_history`."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from laneway.api import names
from laneway.operator.state.resources import PODS
from laneway.operator.watch.apiserver import ApiError, Raw

from tests.support.operator.fixtures import SYSTEM_NAMESPACE
from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.rival_history import History
from tests.support.operator.waiting import until
from tests.support.operator.watching import watched

RIVALS = 50
GPUS = 3
WORKERS = 2
"""Two gangs would need more GPUs than there are; half of each would fit."""

REFUSED = {3, 20}
"""The kubelet refuses a worker of these gangs' first attempts after others have started."""


@pytest.fixture(scope="module")
def operator(
    operator_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """An operator whose gang timeout is long enough for a slow machine."""
    config: dict[str, Any] = copy.deepcopy(FAST)
    config["timeouts"] |= {"gangTimeoutSeconds": 60, "avoidNodeSeconds": 1}
    folder = tmp_path_factory.mktemp("rivals")
    with OperatorProcess(folder, operator_kubeconfig, SYSTEM_NAMESPACE, config) as process:
        yield process
    print(process.log)


def _by_gang(pods: list[Raw]) -> dict[str, list[Raw]]:
    gangs: dict[str, list[Raw]] = {}
    for pod in pods:
        gangs.setdefault(pod["metadata"]["labels"][names.JOB_LABEL], []).append(pod)
    return gangs


@pytest.mark.timeout(700)
async def test_fifty_rival_gangs_run_one_after_another_and_never_hold_half(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=GPUS)
    history = History(WORKERS)

    async def play() -> bool:
        """Play all kubelets for a moment; return whether all gangs have ended."""
        pods = (await cluster.api.request("GET", PODS.path(cluster.namespace)))["items"]
        for name, gang in _by_gang(pods).items():
            try:
                await _play_gang(cluster, name, sorted(gang, key=_rank))
            except ApiError as error:
                if error.status not in (404, 409):  # it was deleted meanwhile, as a kubelet finds too
                    raise
        return history.all_succeeded(RIVALS)

    async with watched(cluster.api, cluster.namespace, history):
        await asyncio.gather(*(cluster.submit(f"rival-{at}", workers=WORKERS) for at in range(RIVALS)))
        await until("all rivals have run", play, seconds=600, poll_seconds=0.02)
    checked = history.check()
    assert set(checked.whole) == {f"rival-{at}" for at in range(RIVALS)}
    assert {f"rival-{at}" for at in REFUSED} <= set(checked.partial), "taken back"
    statuses = {name: job["status"] for name, job in history.now.jobs.items()}
    assert all(status["restarts"] == 0 for status in statuses.values()), "nobody's failure"
    for at in REFUSED:
        assert statuses[f"rival-{at}"]["attempt"] > 1, "tried again"


def _rank(pod: Raw) -> int:
    return int(pod["metadata"]["labels"][names.RANK_LABEL])


async def _play_gang(cluster: PlayedCluster, name: str, gang: list[Raw]) -> None:
    if any("deletionTimestamp" in pod["metadata"] for pod in gang):
        await cluster.let_go(name)
        return
    phases = [pod["status"].get("phase") for pod in gang]
    if len(gang) < WORKERS or set(phases) <= {"Succeeded", "Failed"}:
        return
    attempt = int(gang[0]["metadata"]["labels"][names.ATTEMPT_LABEL])
    if int(name.rpartition("-")[2]) in REFUSED and attempt == 1:
        if phases[0] == "Pending":
            await cluster.run(gang[0])
            await cluster.refuse(gang[-1], "UnexpectedAdmissionError", "no such devices")
        return
    pending = [pod for pod, phase in zip(gang, phases, strict=True) if phase == "Pending"]
    await asyncio.gather(*(cluster.run(pod) for pod in pending))
    if set(phases) == {"Running"}:
        await asyncio.gather(*(cluster.finish(pod) for pod in gang))
