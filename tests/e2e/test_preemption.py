"""A job is preempted in place on real nodes: the operator orders it, the node's agent stops the client, and both resume it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hack.cluster.probes import wait_until
from hack.demo.jobs import JobView
from tests.e2e.conftest import Bench, Laneway
from tests.e2e.kills import delete_operator
from tests.e2e.manifests import OPERATOR_USER, session_pod, training_job
from tests.e2e.node_view import (
    containers,
    session_of,
    wait_for_state,
    wait_until_further,
    wait_until_offered,
)

_FOREVER = 10_000_000
_SHARING = ("--set", "sharing=lanes")


@pytest.fixture(scope="module")
def pausing(laneway: Laneway) -> Iterator[None]:
    """Half of the offered shares is for paused and offloaded jobs."""
    laneway.installation.upgrade(*_SHARING)
    wait_until_offered(laneway, 4, "lanes")
    yield
    laneway.installation.upgrade()
    wait_until_offered(laneway, 4, "off")


@pytest.fixture
def urgent(bench: Bench) -> Iterator[str]:
    """A PriorityClass."""
    name = f"{bench.namespace}-urgent"
    bench.laneway.kubectl.run("create", "priorityclass", name, "--value=1000")
    yield name
    bench.laneway.kubectl.run("delete", "priorityclass", name)


@pytest.fixture
def one_gpu(bench: Bench) -> str:
    """A node on which a pod leaves one GPU to TrainingJobs. The policy refuses it from anyone but the operator while jobs share GPUs."""
    node = sorted(bench.laneway.kubectl.ready_nodes())[0]
    filler = json.dumps(session_pod("filler", 300, node=node))
    create = ("create", "--namespace", bench.namespace, "--as", OPERATOR_USER, "--filename", "-")
    bench.laneway.kubectl.run(*create, stdin=filler)
    wait_until(lambda: session_of(bench, "filler").get("node") == node, "the others are taken", 180)
    return node


def submit(bench: Bench, name: str, node: str, *, script: str = "", **spec: Any) -> None:
    """A job that needs a whole GPU of a node, lets no other job join it there, and trains until it is stopped."""
    job = training_job(
        name,
        spec={"gpus": {"type": "Count", "count": 1}, "maxSlowdownPercent": 0, "backoffLimit": 0},
        steps=_FOREVER,
        pace_seconds=0.02,
    )
    job["spec"] |= spec
    pod = job["spec"]["template"]["spec"]
    pod["nodeSelector"] = {"kubernetes.io/hostname": node}
    pod["containers"][0]["command"][-1] += script
    bench.jobs.apply([job])


def event_message(bench: Bench, job: str, reason: str) -> str:
    """What a job's last event of a reason says; empty while there is none."""
    events = bench.laneway.kubectl.get("events", "--namespace", bench.namespace)["items"]
    said = [
        each["message"]
        for each in events
        if (each["involvedObject"]["name"], each["reason"]) == (job, reason)
    ]
    return said[-1] if said else ""


def wait_until_event(bench: Bench, job: str, reason: str, *words: str) -> None:
    wait_until(
        lambda: all(word in event_message(bench, job, reason) for word in words),
        f"{job} has an event {reason}: {words}",
        120,
    )


def enough(bench: Bench, job: str) -> None:
    """Tell a job's worker that it has trained long enough, and wait until it has succeeded."""
    place = ("--namespace", bench.namespace, "--container", "trainer")
    bench.laneway.kubectl.run("exec", f"{job}-0", *place, "--", "kill", "-USR1", "1")
    bench.jobs.wait([job], lambda view: view.has("Complete"), "having succeeded", 180)


def wait_until_preempted(bench: Bench, action: str, preemptor: str) -> JobView:
    """Waits until a job is paused or offloaded for another that runs; returns it after checks of its status."""
    bench.jobs.wait([preemptor], lambda view: view.has("Running"), "running", 240)
    job = bench.jobs.wait(
        ["long"],
        lambda view: view.status.preemption is not None and view.status.preemption.reached_at is not None,
        "paused or offloaded",
        180,
    )["long"]
    preemption = job.status.preemption
    assert preemption is not None
    whom = f"{bench.namespace}/{preemptor}"
    assert (preemption.action, preemption.preemptor) == (action, whom)
    assert f"Preempted by {whom} (priority 1000 before" in preemption.message
    assert preemption.cost_milliseconds, "the cost is reported"
    assert job.has("Placed")
    assert job.has("Preempted")
    reasons = {each.type: each.reason for each in job.status.conditions}
    assert (reasons["Running"], reasons["Preempted"]) == (
        {"Pause": "Paused"}.get(action, "Offloaded"),
        "HigherPriority",
    )
    return job


def check_still(bench: Bench, job: str, before: dict[str, Any]) -> None:
    """Checks that a job's worker has done no iteration since its session was looked at; else says what its node and the operator say."""
    now = session_of(bench, f"{job}-0")
    if now["iterations"] != before["iterations"]:
        said = bench.laneway.kubectl.run("describe", "trainingjob", job, "--namespace", bench.namespace)
        orders = bench.laneway.kubectl.get("gpunode", now["node"])["spec"]
        raise AssertionError(f"{before}\nbecame {now}\norders: {orders}\n{said}")


def test_a_job_pauses_then_moves_its_memory_away_for_others_and_goes_on_where_it_was(
    pausing: None, bench: Bench, urgent: str, one_gpu: str
) -> None:
    submit(bench, "long", one_gpu)
    profiled = bench.jobs.wait(["long"], lambda view: view.status.profile is not None, "being profiled", 240)
    attempt = profiled["long"].status.attempt
    wait_until_further(bench, "long-0", 5)
    before = containers(bench)["long-0"]

    # Another run of the same script: its needs are known, and fit beside the memory that the first one keeps.
    submit(bench, "short", one_gpu, priorityClassName=urgent)
    wait_until_event(bench, "long", "Preempted", f"{bench.namespace}/short", "told to pause")
    wait_until_event(bench, "short", "Preempting", f"{bench.namespace}/long is paused (HigherPriority")
    paused = wait_for_state(bench, "long-0", "Paused")
    wait_until(lambda: bool(bench.jobs.pods("short")), "the other is about to start", 120)
    delete_operator(bench.laneway)
    assert wait_until_preempted(bench, "Pause", "short").attained_gpu_seconds > 0
    wait_until_further(bench, "short-0", 5)
    check_still(bench, "long", paused)
    enough(bench, "short")
    wait_until_further(bench, "long-0", paused["iterations"])

    # A script without a profile counts with all of the GPU's memory.
    submit(bench, "stranger", one_gpu, script="\n# unknown", priorityClassName=urgent)
    wait_until_preempted(bench, "Offload", "stranger")
    moved = wait_for_state(bench, "long-0", "Offloaded")
    assert moved["offloadedBytes"] > 0
    wait_until_further(bench, "stranger-0", 5)
    check_still(bench, "long", moved)
    enough(bench, "stranger")
    wait_until_further(bench, "long-0", moved["iterations"])

    long = bench.jobs.wait(["long"], lambda view: view.has("Running"), "running again", 120)["long"]
    assert (long.status.attempt, long.status.restarts, long.status.preemptions) == (attempt, 0, 2)
    assert long.status.preemption is None
    assert containers(bench)["long-0"] == before, "its process never ended"
    wait_until_event(bench, "long", "Resumed", "Resumed in place")
