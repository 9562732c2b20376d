"""Two replicas, one of which acts. What is done to the one that acts: tests/faults/test_leaders.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.operator.fixtures import SYSTEM_NAMESPACE
from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until

UNHURRIED: dict[str, Any] = {
    **FAST,
    "timeouts": {**FAST["timeouts"], "gangTimeoutSeconds": 600},
    "lease": {"durationSeconds": 600, "renewDeadlineSeconds": 300, "retrySeconds": 1},
}
"""A lease and a gang that do not run out, however slowly the test plays the kubelet."""

POD_WRITES = 'laneway_api_writes_total{resource="pods",result="ok",verb="create"}'


def page(replica: OperatorProcess, path: str) -> str:
    """Return what a replica serves; empty where it does not answer yet, or not in time."""
    if replica.port is None:
        return ""
    try:
        return replica.get(path)
    except OSError:
        return ""


async def until_shown(replica: OperatorProcess, text: str, path: str = "/metrics") -> str:
    """Wait until a replica's page has a text, and return the page."""

    async def look() -> str | None:
        shown = page(replica, path)
        return shown if text in shown else None

    return await until(f"{path} shows {text}", look, 120)


@contextmanager
def shown(replica: OperatorProcess) -> Iterator[None]:
    """Run a replica, and print its log at the end: pytest shows it with a failed test."""
    try:
        with replica:
            yield
    finally:
        print(replica.log)


async def test_a_second_replica_acts_only_when_the_first_is_gone(
    operator_kubeconfig: Path, tmp_path: Path, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=4)
    leader = OperatorProcess(tmp_path / "leader", operator_kubeconfig, SYSTEM_NAMESPACE, UNHURRIED)
    standby = OperatorProcess(tmp_path / "standby", operator_kubeconfig, SYSTEM_NAMESPACE, UNHURRIED)
    with shown(leader):
        await until_shown(leader, "laneway_leader 1.0")
        with shown(standby):
            await until_shown(standby, "ok\n", "/readyz")
            await cluster.submit("one")
            await cluster.run_all("one", 1)
            assert POD_WRITES not in await until_shown(standby, "laneway_leader 0.0")

            # One that ends as it should gives the lease back at once: nothing waits for it to run out.
            assert leader.stop() == 0
            await until_shown(standby, "laneway_leader 1.0")
            await cluster.submit("two")
            await cluster.until_pods("two", 1)
            await until_shown(standby, POD_WRITES + " 1.0")
