"""A job is deleted, or suspended, at each moment of its life: it leaves nothing behind, and its GPUs are others'."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from laneway.api.rfc3339 import parse_time
from laneway.operator.state.resources import TRAINING_JOBS
from laneway.operator.watch.apiserver import ApiError

from tests.support.operator.fixtures import SYSTEM_NAMESPACE
from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import GIB, PlayedCluster
from tests.support.operator.waiting import until

JOB, OTHER = "subject", "other"
NODE = "n1"
NEVER_SECONDS = 3600
"""Longer than any test: a job stays in its state until the test changes it."""


@pytest.fixture(scope="module")
def operator(
    operator_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """A setup in which a job stays in one state until the test changes it."""
    config: dict[str, Any] = copy.deepcopy(FAST)
    config["timeouts"] |= {"gangTimeoutSeconds": NEVER_SECONDS, "restartBackoffSeconds": 300}
    config["timeouts"] |= {"pauseSeconds": NEVER_SECONDS}
    with OperatorProcess(
        tmp_path_factory.mktemp("moments"), operator_kubeconfig, SYSTEM_NAMESPACE, config
    ) as process:
        yield process
    print(process.log)


async def waiting(cluster: PlayedCluster) -> None:
    await cluster.submit(OTHER)
    await cluster.run_all(OTHER, 1)
    await cluster.until_condition(OTHER, "Running")
    await cluster.submit(JOB)
    await cluster.until_waiting(JOB, "GPUsBusy")


async def refused(cluster: PlayedCluster) -> None:
    await cluster.submit(JOB, priorityClassName="no-such-class")
    await cluster.until_condition(JOB, "Accepted", "False")


async def starting(cluster: PlayedCluster) -> None:
    await cluster.submit(JOB)
    await cluster.until_pods(JOB, 1)
    await cluster.until_waiting(JOB, "Starting")


async def running(cluster: PlayedCluster) -> None:
    await cluster.submit(JOB)
    await cluster.run_all(JOB, 1)
    await cluster.until_condition(JOB, "Running")


async def ending(cluster: PlayedCluster) -> None:
    await running(cluster)
    await cluster.submit(OTHER, priorityClassName=await cluster.add_priority_class("urgent", 1000))
    await cluster.until_waiting(JOB, "WorkersEnding")


async def told_to_pause(cluster: PlayedCluster) -> None:
    await running(cluster)
    await _tell_to_pause(cluster)


async def _tell_to_pause(cluster: PlayedCluster) -> None:
    (pod,) = await cluster.pods(JOB)
    figures = {"persistentBytes": GIB, "ephemeralBytes": GIB, "profiled": True}
    await cluster.add_session(pod, 0, **figures)

    async def measured() -> bool:
        return "profile" in (await cluster.job(JOB))["status"]

    await until("the profile is in the status", measured)
    await cluster.submit(OTHER, priorityClassName=await cluster.add_priority_class("urgent", 1000))
    await cluster.until_orders(f"{cluster.namespace}-{NODE}", {pod["metadata"]["uid"]: "Pause"})


async def paused(cluster: PlayedCluster) -> None:
    await told_to_pause(cluster)
    await _pause(cluster)


async def _pause(cluster: PlayedCluster) -> None:
    await cluster.set_sessions(f"{cluster.namespace}-{NODE}", await cluster.pods(JOB), state="Paused")
    await cluster.until_condition(JOB, "Running", "False", reason="Paused")


async def backing_off(cluster: PlayedCluster) -> None:
    await running(cluster)
    (pod,) = await cluster.pods(JOB)
    await cluster.finish(pod, exit_code=1)
    await cluster.until_waiting(JOB, "BackingOff")


async def suspended(cluster: PlayedCluster) -> None:
    await cluster.submit(JOB, suspend=True)
    await cluster.until_waiting(JOB, "Suspended")


async def succeeded(cluster: PlayedCluster) -> None:
    await running(cluster)
    (pod,) = await cluster.pods(JOB)
    await cluster.finish(pod)
    await cluster.until_condition(JOB, "Complete")


Moment = Callable[[PlayedCluster], Awaitable[None]]
STOPPABLE: list[Moment] = [waiting, starting, running, told_to_pause, paused, ending, backing_off]


async def _until_free(cluster: PlayedCluster) -> None:
    """Let the workers of the job end, as its kubelet does, and wait until they are gone."""

    async def free() -> bool:
        pods = await cluster.pods(JOB)
        if leaving := [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]:
            # A session does not outlive its container.
            await cluster.set_sessions(f"{cluster.namespace}-{NODE}", leaving, state="Ended")
            await cluster.let_go(JOB)
        return not pods

    await until(f"the pods of {JOB} are gone", free)
    await cluster.until_orders(f"{cluster.namespace}-{NODE}", {})


async def _without_the_other(cluster: PlayedCluster) -> None:
    """The job that was there beside it goes."""
    with contextlib.suppress(ApiError):  # most moments need none
        await cluster.delete_job(OTHER)

    async def gone() -> bool:
        await cluster.let_go(OTHER)
        return not await cluster.pods(OTHER)

    await until(f"{OTHER} is gone", gone)


@pytest.mark.parametrize(
    ("moment", "propagation"),
    [
        *((each, "Background") for each in (*STOPPABLE, refused, suspended, succeeded)),
        *(
            (each, "Foreground") for each in (running, paused, ending)
        ),  # the job stays until its pods are gone
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
async def test_a_job_is_deleted(
    operator: OperatorProcess, cluster: PlayedCluster, moment: Moment, propagation: str
) -> None:
    await cluster.add_node(NODE, percent=200)
    await moment(cluster)

    path = TRAINING_JOBS.path(cluster.namespace, JOB)
    await cluster.api.request("DELETE", path, body={"propagationPolicy": propagation})
    await _until_free(cluster)
    await _without_the_other(cluster)

    async def gone() -> bool:
        left = await cluster.api.request("GET", TRAINING_JOBS.path(cluster.namespace))
        return not any(job["metadata"]["name"] == JOB for job in left["items"])

    await until(f"nothing is left of {JOB}", gone)
    await cluster.submit("next", sharing="Exclusive")  # all that the GPU offers
    await cluster.run_all("next", 1)
    await cluster.until_condition("next", "Running")


@pytest.mark.parametrize("moment", STOPPABLE, ids=lambda each: each.__name__)
async def test_a_job_is_suspended(operator: OperatorProcess, cluster: PlayedCluster, moment: Moment) -> None:
    await cluster.add_node(NODE, percent=200)
    await moment(cluster)
    before = (await cluster.job(JOB))["status"]

    await cluster.change(JOB, {"suspend": True})
    await _until_free(cluster)

    async def said() -> bool:
        waiting_for = (await cluster.job(JOB))["status"].get("waiting") or {}
        says_how = "spec.suspend to false" in waiting_for.get("unblock", "")
        return (
            waiting_for.get("reason") == "Suspended" and says_how and "Suspended" in await cluster.events(JOB)
        )

    await until(f"{JOB} and an event say that it is suspended, and what would end that", said)
    placed = await cluster.condition(JOB, "Placed")
    assert (placed["status"], placed["reason"]) == ("False", "Suspended")
    await _without_the_other(cluster)
    await cluster.change(JOB, {"suspend": False})
    await cluster.run_all(JOB, 1, attempt=before.get("attempt", 0) + 1)
    await cluster.until_condition(JOB, "Running")
    status = (await cluster.job(JOB))["status"]
    counts = ("restarts", "preemptions")
    assert [status[each] for each in counts] == [before[each] for each in counts], (
        "nobody's failure, and no preemption"
    )


async def test_a_paused_job_fails_when_its_deadline_is_set_below_what_it_has_run(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node(NODE, percent=200)
    await running(cluster)

    async def ran() -> bool:
        status = (await cluster.job(JOB))["status"]
        uncounted_seconds = time.time() - parse_time(status["serviceCountedAt"])
        return bool(status.get("executedMilliseconds", 0) / 1000 + uncounted_seconds >= 1)

    await until(f"{JOB} has run for a second", ran)
    await _tell_to_pause(cluster)
    await _pause(cluster)
    await cluster.change(JOB, {"activeDeadlineSeconds": 1})
    failed = await cluster.until_condition(JOB, "Failed")
    assert failed["reason"] == "DeadlineExceeded"
    await cluster.until_leaving(JOB, 1)
    await _until_free(cluster)
    await cluster.run_all(OTHER, 1)
    await cluster.until_condition(OTHER, "Running")
