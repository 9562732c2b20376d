"""What was measured of a job goes to the next of the same template: from a node's report to the record that the next node's agent reads."""

from __future__ import annotations

from typing import Any

from laneway.api import names
from laneway.api.container_record import ContainerRecord
from laneway.api.device_ids import device_id
from laneway.device_plugin.pod_info import pod_info
from laneway.device_plugin.pod_resources import Holder
from laneway.device_plugin.share_manager import record_of
from laneway.operator.state.resources import TRAINING_PROFILES

from tests.support.operator.operator_process import OperatorProcess
from tests.support.operator.played_cluster import GIB, PlayedCluster
from tests.support.operator.waiting import until

OPERATOR_MODULE = "tests.integration.operator.prompt_profiles"
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
    return record_of(holder, pod_info(pod), None)


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
    no_checkpoints_seen = {"savedExecutedMilliseconds": 0, "warning": ""}
    assert progress == {"iterations": 100, "percent": 24, **no_checkpoints_seen, **MEASURED["report"]}
    loss = f'laneway_job_loss{{namespace="{cluster.namespace}",training_job="first"}} NaN'

    async def counted() -> bool:
        return loss in operator.get("/metrics")

    await until("its loss is a metric", counted)
    await cluster.finish(first)
    await cluster.until_condition("first", "Complete")

    await cluster.submit("second", gpus={"type": "Share", "sharePercent": 60}, template=template)
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


SHARE: dict[str, Any] = {"type": "Share", "sharePercent": 60}


async def train(
    cluster: PlayedCluster, name: str, env: dict[str, str], **figures: Any
) -> dict[str, Any] | None:
    """Run a job until its figures are in its status, end it and delete it; return what it started from."""
    variables = [{"name": key, "value": value} for key, value in env.items()]
    await cluster.submit(name, gpus=SHARE, template={"spec": {"containers": [{**COMMAND, "env": variables}]}})
    (pod,) = await cluster.until_pods(name, 1)
    profile = as_the_plugin_reads_it(pod).profile
    pod = await cluster.run(pod)
    await cluster.add_session(pod, 0, **{**MEASURED, **figures})

    async def measured() -> bool:
        return "profile" in (await cluster.job(name))["status"]

    await until(f"{name} was measured", measured)
    await cluster.finish(pod)
    await cluster.until_condition(name, "Complete")
    await cluster.set_sessions(pod["spec"]["nodeName"], [pod], state="Ended")
    await cluster.delete_job(name)
    return None if profile is None else profile.model_dump()


async def test_a_profile_outlives_its_job_and_the_operator_and_ends_with_its_image(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    eight, many = {"BATCH_SIZE": "8"}, {"BATCH_SIZE": "512"}
    assert await train(cluster, "first", eight) is None

    async def written() -> str | None:
        # The job's status is a write of its own, so the job can be over before its profile is there.
        return next(iter(await cluster.profiles()), None)

    name = await until("the first job has left a profile", written)

    async def entry(count: int) -> dict[str, Any] | None:
        (found,) = (await cluster.profiles())[name]["models"]
        return found if found["measuredJobs"] >= count else None

    await until("the first job is counted", lambda: entry(1))
    operator.kill()
    await operator.start_again(cluster.api)

    second = await train(cluster, "second", eight, ephemeralBytes=25 * GIB)
    assert second is not None
    assert second["ephemeral_bytes"] == 20 * GIB
    assert await train(cluster, "other", many, ephemeralBytes=60 * GIB) is None, "another batch size"

    both = await until("both jobs are counted", lambda: entry(2))
    assert (both["model"], both["imageIDs"], both["completedJobs"]) == (cluster.model, ["sha256:1"], 2)
    assert both["profile"]["ephemeralBytes"] == 25 * GIB, "the most that one needed"

    cluster.digest = "sha256:2"
    assert await train(cluster, "third", eight, ephemeralBytes=3 * GIB) is not None, "the tag is the same"

    async def replaced() -> dict[str, Any] | None:
        found = await entry(0)
        return found if found is not None and found["imageIDs"] == ["sha256:2"] else None

    moved = await until("the other image has replaced it", replaced)
    assert moved["profile"]["ephemeralBytes"] == 3 * GIB, "it is not merged"
    fourth = await train(cluster, "fourth", eight)
    assert fourth is not None
    assert fourth["ephemeral_bytes"] == 3 * GIB


async def test_a_profile_that_somebody_deletes_or_changes_comes_back(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    await cluster.submit("job", gpus=SHARE, template={"spec": {"containers": [COMMAND]}})
    (pod,) = await cluster.until_pods("job", 1)
    await cluster.add_session(await cluster.run(pod), 0, **MEASURED)

    async def known() -> dict[str, Any] | None:
        (found,) = (await cluster.profiles()).values() or [None]
        return found

    first = await until("the profile is there", known)
    path = TRAINING_PROFILES.path(cluster.namespace)
    await cluster.api.request("DELETE", path)
    again = await until("it is there again", known)
    assert again["models"] == first["models"]
