"""Fifty gangs of which no two fit together: each gets all of its GPUs or none, and all of them run in the end."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from laneway.api import names
from laneway.operator.apiserver import ApiError, Raw
from laneway.operator.resources import PODS, TRAINING_JOBS

from tests.integration.operator.conftest import SYSTEM_NAMESPACE
from tests.integration.operator.operator_process import FAST, OperatorProcess
from tests.integration.operator.played_cluster import PlayedCluster
from tests.integration.operator.waiting import until

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
    """One that does not give a gang up which a slow machine plays."""
    config: dict[str, Any] = copy.deepcopy(FAST)
    config["patience"] |= {"gangTimeoutSeconds": 60, "avoidNodeSeconds": 1}
    folder = tmp_path_factory.mktemp("rivals")
    with OperatorProcess(folder, operator_kubeconfig, SYSTEM_NAMESPACE, config) as process:
        yield process
    print(process.log)


class _Audit:
    """What was seen of who held GPUs."""

    def __init__(self) -> None:
        self.rolled_back: set[str] = set()

    def look(self, jobs: list[Raw], pods: list[Raw]) -> None:
        """Check one moment: no GPU is promised twice, no gang is placed in part, and no two run."""
        alive = [pod for pod in pods if pod["status"].get("phase") in ("Pending", "Running")]
        gpus = Counter(pod["metadata"]["annotations"][names.GPUS_ANNOTATION] for pod in alive)
        assert max(gpus.values(), default=0) <= 1, f"promised twice: {gpus}"
        placed = [
            job
            for job in jobs
            if any(each["type"] == "Placed" and each["status"] == "True" for each in _conditions(job))
        ]
        assert all(len(job["status"]["placement"]) == WORKERS for job in placed), "a gang is placed whole"
        running = [name for name, gang in _by_gang(alive).items() if len(gang) == WORKERS and _run(gang)]
        assert len(running) <= 1, f"they run together: {running}"


def _run(gang: list[Raw]) -> bool:
    return all(pod["status"]["phase"] == "Running" for pod in gang)


def _by_gang(pods: list[Raw]) -> dict[str, list[Raw]]:
    gangs: dict[str, list[Raw]] = {}
    for pod in pods:
        gangs.setdefault(pod["metadata"]["labels"][names.JOB_LABEL], []).append(pod)
    return gangs


def _conditions(job: Raw) -> list[Raw]:
    return list((job.get("status") or {}).get("conditions") or ())


async def test_fifty_rival_gangs_run_one_after_another_and_never_hold_half(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=GPUS)
    await asyncio.gather(*(cluster.submit(f"rival-{at}", workers=WORKERS) for at in range(RIVALS)))
    audit = _Audit()

    async def play() -> bool:
        """Play all kubelets for a moment; return whether all gangs have ended."""
        jobs = (await cluster.api.request("GET", TRAINING_JOBS.path(cluster.namespace)))["items"]
        pods = (await cluster.api.request("GET", PODS.path(cluster.namespace)))["items"]
        audit.look(jobs, pods)
        done = {
            job["metadata"]["name"]
            for job in jobs
            if any(each["type"] == "Succeeded" and each["status"] == "True" for each in _conditions(job))
        }
        for name, gang in _by_gang(pods).items():
            try:
                await _play_gang(cluster, audit, name, sorted(gang, key=_rank))
            except ApiError as error:
                if error.status not in (404, 409):  # it was deleted meanwhile, as a kubelet finds too
                    raise
        return len(done) == RIVALS

    await until("all rivals have run", play, seconds=240, poll_seconds=0.02)
    assert audit.rolled_back == {f"rival-{at}" for at in REFUSED}
    statuses = {
        job["metadata"]["name"]: job["status"]
        for job in (await cluster.api.request("GET", TRAINING_JOBS.path(cluster.namespace)))["items"]
    }
    assert all(status["restarts"] == 0 for status in statuses.values()), "nobody's failure"
    for name in audit.rolled_back:
        assert statuses[name]["attempt"] > 1, "tried again"


def _rank(pod: Raw) -> int:
    return int(pod["metadata"]["labels"][names.RANK_LABEL])


async def _play_gang(cluster: PlayedCluster, audit: _Audit, name: str, gang: list[Raw]) -> None:
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
            audit.rolled_back.add(name)
        return
    pending = [pod for pod, phase in zip(gang, phases, strict=True) if phase == "Pending"]
    await asyncio.gather(*(cluster.run(pod) for pod in pending))
    if set(phases) == {"Running"}:
        await asyncio.gather(*(cluster.finish(pod) for pod in gang))
