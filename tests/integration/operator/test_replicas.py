"""Two replicas, one of which acts. What is done to the one that acts: tests/faults/test_leaders.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.operator.conftest import SYSTEM_NAMESPACE
from tests.integration.operator.operator_process import FAST, OperatorProcess
from tests.integration.operator.played_cluster import PlayedCluster
from tests.integration.operator.waiting import until

LONG_LEASE = {**FAST, "lease": {"durationSeconds": 600, "renewDeadlineSeconds": 300, "retrySeconds": 1}}
POD_WRITES = 'laneway_api_writes_total{resource="pods",result="ok",verb="create"}'


async def leads(replica: OperatorProcess) -> bool:
    return replica.port is not None and "laneway_leader 1.0" in replica.get("/metrics")


async def stands_by(replica: OperatorProcess) -> bool:
    return replica.port is not None and "laneway_leader 0.0" in replica.get("/metrics")


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
    first = OperatorProcess(tmp_path / "first", operator_kubeconfig, SYSTEM_NAMESPACE, LONG_LEASE)
    second = OperatorProcess(tmp_path / "second", operator_kubeconfig, SYSTEM_NAMESPACE, LONG_LEASE)
    with shown(first), shown(second):
        pair = [first, second]

        async def elected() -> list[OperatorProcess] | None:
            if all(replica.port for replica in pair) and any([await leads(each) for each in pair]):
                return sorted(pair, key=lambda each: "laneway_leader 1.0" not in each.get("/metrics"))
            return None

        leader, standby = await until("one of them leads", elected)

        async def standby_is_ready() -> bool:
            try:
                return standby.get("/readyz") == "ok\n"
            except OSError:
                return False

        await until("the other is ready", standby_is_ready)
        await cluster.submit("one")
        await cluster.run_all("one", 1)
        assert await stands_by(standby)
        assert POD_WRITES not in standby.get("/metrics")

        # One that ends as it should gives the lease back at once: nothing waits for it to run out.
        assert leader.stop() == 0
        await until("the other leads", lambda: leads(standby))
        await cluster.submit("two")
        await cluster.until_pods("two", 1)
        assert POD_WRITES + " 1.0" in standby.get("/metrics")
