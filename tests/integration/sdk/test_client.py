"""The SDK against a real API server. The tests write the status in place of the operator."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from laneway.sdk import (
    AlreadyExistsError,
    AsyncTrainingJobClient,
    CustomTrainer,
    CustomTrainerContainer,
    ForbiddenError,
    InvalidJobError,
    JobFailedError,
    NotFoundError,
    TrainingJob,
    TrainingJobClient,
    UnreachableError,
)

from hack.cluster.control_plane import LoopbackControlPlane
from tests.support.rights import until_allowed

TRAINER = CustomTrainerContainer(image="training:1", resources_per_node={"gpu": 0.5})
TIME = "2026-01-31T12:00:00Z"


class Bench:
    """A namespace, its client, and the operator's pen."""

    def __init__(self, plane: LoopbackControlPlane) -> None:
        self._plane = plane
        self.namespace = f"sdk-{uuid.uuid4().hex[:8]}"
        self.kubectl("create", "namespace", self.namespace)
        self.client = TrainingJobClient(namespace=self.namespace, kubeconfig=str(plane.kubeconfig))

    def kubectl(self, *arguments: str) -> None:
        command = [str(self._plane.kubectl), "--kubeconfig", str(self._plane.kubeconfig), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def set_state(self, name: str, state: str) -> None:
        """Write a state and its condition, as the operator does."""
        condition = {
            "type": state,
            "status": "True",
            "reason": "R",
            "message": "M.",
            "lastTransitionTime": TIME,
        }
        status = {"state": state, "conditions": [condition]}
        self.kubectl(
            "patch", "trainingjob", name, "-n", self.namespace, "--subresource=status", "--type=merge",
            "-p", json.dumps({"status": status}),
        )  # fmt: skip


@pytest.fixture
def bench(control_plane: LoopbackControlPlane) -> Iterator[Bench]:
    made = Bench(control_plane)
    yield made
    made.kubectl("delete", "namespace", made.namespace, "--wait=false")


def train(steps: int) -> None:
    print(steps)


def test_a_function_from_its_creation_to_its_end(bench: Bench) -> None:
    client = bench.client
    name = client.train(CustomTrainer(func=train, func_args={"steps": 3}, num_nodes=2), labels={"team": "a"})
    job = client.get_job(name)
    assert (job.status, job.num_nodes, job.namespace) == ("Pending", 2, bench.namespace)
    (annotation,) = job.object["spec"]["template"]["metadata"]["annotations"].values()
    assert annotation.endswith("train(steps=3)\n")
    assert [each.name for each in client.list_jobs(label_selector="team=a")] == [name]
    assert client.list_jobs(label_selector="team=b") == []
    assert client.suspend_job(name).object["spec"]["suspend"] is True
    assert client.resume_job(name).object["spec"]["suspend"] is False
    bench.set_state(name, "Complete")
    assert client.wait_for_job_status(name).finished
    assert client.get_job_events(name) == []
    client.delete_job(name)
    with pytest.raises(NotFoundError, match=f"TrainingJob {name} in namespace {bench.namespace} not found"):
        client.get_job(name)


def test_a_wait_sees_each_change(bench: Bench) -> None:
    name, seen = bench.client.train(TRAINER), list[str]()

    def note(job: TrainingJob) -> None:
        seen.append(job.status)
        bench.set_state(name, {"Pending": "Running", "Running": "Complete"}[job.status])

    def once(job: TrainingJob) -> None:
        if job.status not in seen and job.status != "Complete":
            note(job)

    bench.client.wait_for_job_status(name, callbacks=[once], timeout=60)
    assert seen == ["Pending", "Running"]


def test_waits_that_cannot_end_well(bench: Bench) -> None:
    name = bench.client.train(TRAINER)
    with pytest.raises(
        TimeoutError, match=f"TrainingJob {name} was in none of the states Complete after 1 s"
    ):
        bench.client.wait_for_job_status(name, timeout=1)
    bench.set_state(name, "Failed")
    with pytest.raises(JobFailedError, match=r"is Failed: M\."):
        bench.client.wait_for_job_status(name)
    with pytest.raises(NotFoundError):
        bench.client.wait_for_job_status("nobody")


def test_what_the_api_server_refuses_has_its_own_error(
    bench: Bench, control_plane: LoopbackControlPlane, tmp_path: Path
) -> None:
    bench.client.train(TRAINER, name="one")
    with pytest.raises(AlreadyExistsError, match="already exists: delete it first"):
        bench.client.train(TRAINER, name="one")
    with pytest.raises(InvalidJobError, match="workers"):
        bench.client.train(TRAINER, spec={"workers": 0})
    with pytest.raises(InvalidJobError, match="unheardOf"):
        bench.client.train(TRAINER, spec={"unheardOf": 1})
    kubeconfig = str(control_plane.kubeconfig_for("stranger"))
    stranger = TrainingJobClient(namespace=bench.namespace, kubeconfig=kubeconfig)
    with pytest.raises(ForbiddenError, match="stranger"):
        stranger.list_jobs()
    with pytest.raises(UnreachableError, match="no cluster is configured"):
        TrainingJobClient(kubeconfig=str(tmp_path / "none"))


def test_a_list_is_watched(bench: Bench) -> None:
    snapshots = bench.client.watch_jobs()
    assert next(snapshots) == []
    added = threading.Thread(target=lambda: bench.client.train(TRAINER, name="one"))
    added.start()
    assert [job.name for job in next(snapshots)] == ["one"]
    added.join()
    bench.client.delete_job("one")
    assert next(jobs for jobs in snapshots if not jobs) == []


def test_a_users_wait_survives_a_restart_of_the_api_server(
    bench: Bench, control_plane: LoopbackControlPlane
) -> None:
    place = ("-n", bench.namespace)
    bench.kubectl("create", "role", "user", *place, "--verb=*", "--resource=trainingjobs.laneway.dev")
    bench.kubectl("create", "rolebinding", "user", *place, "--role=user", "--user=ann")
    until_allowed(control_plane, "ann", "list trainingjobs.laneway.dev", bench.namespace)
    kubeconfig = str(control_plane.kubeconfig_for("ann"))
    user, name = (
        TrainingJobClient(namespace=bench.namespace, kubeconfig=kubeconfig),
        bench.client.train(TRAINER),
    )
    seen: dict[str, threading.Event] = defaultdict(threading.Event)

    def wait() -> None:
        user.wait_for_job_status(name, timeout=120, callbacks=[lambda job: seen[job.status].set()])

    waits = threading.Thread(target=wait)
    waits.start()
    assert seen["Pending"].wait(60)
    bench.set_state(name, "Running")
    assert seen["Running"].wait(60)  # so it watches
    control_plane.kill("kube-apiserver")
    control_plane.start("kube-apiserver")
    bench.set_state(name, "Complete")
    assert seen["Complete"].wait(120)
    waits.join(60)


async def test_the_same_verbs_for_asyncio(bench: Bench) -> None:
    client = AsyncTrainingJobClient(bench.client)
    name = await client.train(TRAINER)
    assert [job.name for job in await client.list_jobs()] == [name]
    waits = asyncio.create_task(client.wait_for_job_status(name, {"Running"}, timeout=60))
    await asyncio.to_thread(bench.set_state, name, "Running")
    assert (await waits).status == "Running"
    await client.suspend_job(name)
    assert (await client.resume_job(name)).object["spec"]["suspend"] is False
    assert await client.get_job_events(name) == []
    await client.delete_job(name)
    with pytest.raises(NotFoundError):
        await client.get_job(name)


async def test_a_list_is_watched_with_asyncio(bench: Bench) -> None:
    client = AsyncTrainingJobClient(bench.client)
    snapshots = client.watch_jobs(label_selector="team=a")
    assert await anext(snapshots) == []
    await client.train(TRAINER, name="other", labels={"team": "b"})
    await client.train(TRAINER, name="one", labels={"team": "a"})
    assert [job.name for job in await anext(snapshots)] == ["one"]
    await client.delete_job("one")
    async for jobs in snapshots:
        if not jobs:
            break


async def test_a_cancelled_watch_leaves_no_thread(bench: Bench) -> None:
    client, seen = AsyncTrainingJobClient(bench.client), asyncio.Event()
    before = threading.enumerate()  # other tests may have left some in this process
    name = await client.train(TRAINER)

    async def watch() -> None:
        async for _ in client.watch_job(name):
            seen.set()

    task = asyncio.create_task(watch())
    await seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(asyncio.get_running_loop().shutdown_default_executor(), timeout=30)
    left = [thread for thread in threading.enumerate() if thread not in before]
    assert not [thread for thread in left if thread.name.startswith("asyncio_")]


def manifest_of(name: str) -> dict[str, Any]:
    spec = {
        "gpus": {"type": "Count", "count": 1},
        "template": {"spec": {"containers": [{"name": "a", "image": "b"}]}},
    }
    return {
        "apiVersion": "laneway.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_manifest_is_tried(bench: Bench) -> None:
    assert bench.client.create_job(manifest_of("one"), dry_run=True).name == "one"
    assert bench.client.list_jobs() == []
    assert bench.client.create_job(manifest_of("one")).creation_timestamp.tzinfo is not None
