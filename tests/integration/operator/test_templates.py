"""What was measured of a job goes to the next of the same template: from a node's report to the record that the next node's agent reads."""

from __future__ import annotations

from typing import Any

from laneway.api import names
from laneway.api.container_record import ContainerRecord
from laneway.api.device_ids import device_id
from laneway.device_plugin.pod_info import pod_info
from laneway.device_plugin.pod_resources import Holder
from laneway.device_plugin.share_manager import record_of

from tests.support.operator.operator_process import OperatorProcess
from tests.support.operator.played_cluster import GIB, PlayedCluster
from tests.support.operator.waiting import until

COMMAND = {"name": "trainer", "image": "example.invalid/trainer", "command": ["python", "train.py"]}
MEASURED: dict[str, Any] = {
    "profiled": True,
    "persistentBytes": 5 * GIB,
    "frameworkBytes": GIB,
    "ephemeralBytes": 20 * GIB,
    "iterationMicroseconds": 250_000,
    "iterationSpreadMicroseconds": 4_000,
    "iterations": 100,
    "dataMicroseconds": 50_000,
    "report": {"step": 99, "steps": 400, "epoch": 1, "loss": "NaN", "remainingSeconds": 301},
    "modelBytes": GIB,
    "largestTensorBytes": GIB // 2,
}


def as_the_plugin_reads_it(pod: dict[str, Any]) -> ContainerRecord:
    """The record that the device plugin writes of a worker."""
    gpu = pod["metadata"]["annotations"][names.GPUS_ANNOTATION]
    ids = frozenset(device_id(gpu, slot) for slot in range(60))
    holder = Holder(pod["metadata"]["namespace"], pod["metadata"]["name"], "trainer", ids)
    return record_of(holder, pod_info(pod))


async def test_the_next_job_of_a_template_starts_from_what_the_first_one_measured(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    template = {"spec": {"containers": [COMMAND]}}
    await cluster.submit("first", gpus={"type": "Share", "sharePercent": 60}, template=template)
    (first,) = await cluster.until_pods("first", 1)
    assert names.PROFILE_ANNOTATION not in first["metadata"]["annotations"]
    assert as_the_plugin_reads_it(first).profile is None

    first = await cluster.run(first)
    await cluster.add_session(first, 0, **MEASURED)

    async def measured() -> dict[str, Any] | None:
        found: dict[str, Any] | None = (await cluster.job("first"))["status"].get("profile")
        return found

    profile = await until("the first job's profile is there", measured)
    assert profile["persistentBytes"] == 5 * GIB
    assert profile["frameworkBytes"] == GIB
    assert profile["iterationSpreadMicroseconds"] == 4_000
    assert profile["dataMicroseconds"] == 50_000
    progress = (await cluster.job("first"))["status"]["progress"]
    assert progress.pop("updatedAt")
    assert progress == {"iterations": 100, "percent": 24, **MEASURED["report"]}
    loss = f'laneway_job_loss{{job="first",namespace="{cluster.namespace}"}} NaN'

    async def counted() -> bool:
        return loss in operator.get("/metrics")

    await until("its loss is a metric", counted)
    await cluster.finish(first)
    await cluster.until_condition("first", "Complete")

    run = {**COMMAND, "env": [{"name": "RUN", "value": "2"}]}
    await cluster.submit(
        "second", gpus={"type": "Share", "sharePercent": 60}, template={"spec": {"containers": [run]}}
    )
    await cluster.submit(
        "another",
        gpus={"type": "Share", "sharePercent": 10},
        template={"spec": {"containers": [{**COMMAND, "command": ["python", "eval.py"]}]}},
    )
    (second,) = await cluster.until_pods("second", 1)
    record = as_the_plugin_reads_it(second)
    assert record.profile is not None
    assert record.profile.persistent_bytes == 4 * GIB
    assert record.profile.framework_bytes == GIB
    assert record.profile.ephemeral_bytes == 20 * GIB
    assert record.profile.iteration_seconds == 0.25
    assert record.profile.iteration_seconds_spread == 0.004
    assert record.profile.data_seconds == 0.05
    assert record.template_hash == as_the_plugin_reads_it(first).template_hash
    (another,) = await cluster.until_pods("another", 1)
    assert as_the_plugin_reads_it(another).profile is None, "another command is another template"
