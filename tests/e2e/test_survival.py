"""Parts of Laneway and of the node are killed while jobs run: the jobs continue, and the parts return to the
same state."""

from __future__ import annotations

import pytest
from laneway.api.names import GPU_PERCENT

from hack.cluster.probes import wait_until
from tests.e2e.conftest import Bench
from tests.e2e.kills import (
    delete_operator,
    kill,
    registrations,
    restart_counts,
    restart_kubelets,
    wait_until_registered_again,
    wait_until_restarted,
)
from tests.e2e.manifests import EXCLUSIVE_NODE, training_job
from tests.e2e.node_view import connected, containers, running


def start_two_jobs(bench: Bench) -> dict[str, str]:
    """Two jobs that share a GPU, well under way; return their containers."""
    jobs = ["a", "b"]
    bench.jobs.apply([training_job(name, steps=100_000, pace_seconds=0.02) for name in jobs])
    bench.jobs.wait(jobs, running, "running", 180)
    wait_until(lambda: set(connected(bench)) == {"a-0", "b-0"}, "both clients are connected", 180)
    return containers(bench)


def wait_until_training(bench: Bench) -> None:
    """Wait until both clients are connected and do further iterations."""
    wait_until(lambda: set(connected(bench)) == {"a-0", "b-0"}, "both clients are connected again", 180)
    before = {pod: session["iterations"] for pod, session in connected(bench).items()}

    def further() -> bool:
        now = connected(bench)
        return all(pod in now and now[pod]["iterations"] > count for pod, count in before.items())

    wait_until(further, "both go on training", 180)


def test_a_kubelet_restarts(bench: Bench) -> None:
    before = start_two_jobs(bench)

    registered = registrations(bench.laneway)

    restart_kubelets(bench.laneway)

    wait_until_registered_again(bench.laneway, registered)
    bench.laneway.installation.wait_until_advertised(400)
    wait_until_training(bench)
    assert containers(bench) == before
    bench.jobs.apply([training_job("after", steps=5)])
    bench.jobs.wait(["after"], lambda job: job.has("Complete"), "running after the restart", 240)


def test_the_device_plugin_is_killed(bench: Bench) -> None:
    before = start_two_jobs(bench)
    held = connected(bench)
    restarts = restart_counts(bench.laneway, "device-plugin")

    kill(bench.laneway, "device-plugin")
    wait_until_restarted(bench.laneway, "device-plugin", restarts)

    bench.laneway.installation.wait_until_advertised(400)
    wait_until_training(bench)
    assert containers(bench) == before
    assert {pod: session["key"] for pod, session in connected(bench).items()} == {
        pod: session["key"] for pod, session in held.items()
    }
    bench.jobs.apply([training_job("after", steps=5)])
    bench.jobs.wait(["after"], lambda job: job.has("Complete"), "running after the kill", 240)


def test_the_agent_is_killed(bench: Bench) -> None:
    before = start_two_jobs(bench)
    held = connected(bench)
    restarts = restart_counts(bench.laneway, "node-agent")

    kill(bench.laneway, "node-agent")
    wait_until_restarted(bench.laneway, "node-agent", restarts)

    wait_until_training(bench)
    assert containers(bench) == before
    after = connected(bench)
    assert {pod: session["gpu"] for pod, session in after.items()} == {
        pod: session["gpu"] for pod, session in held.items()
    }
    assert all(after[pod]["turns"] >= held[pod]["turns"] for pod in held)


def test_the_operator_is_killed_in_the_middle(bench: Bench) -> None:
    """A job runs and another is about to start; neither is started twice, and service is not lost."""
    bench.jobs.apply([training_job("runs", spec=EXCLUSIVE_NODE, steps=100_000, pace_seconds=0.02)])
    seen = bench.jobs.wait(["runs"], lambda job: job.attained_gpu_seconds > 4, "attaining service", 120)[
        "runs"
    ]
    before = containers(bench)
    bench.jobs.apply([training_job("starts", steps=20)])
    delete_operator(bench.laneway)

    started = bench.jobs.wait(
        ["starts"], lambda job: job.has("Complete"), "running under a new operator", 240
    )
    assert started["starts"].status.attempt == 1
    now = bench.jobs.wait(
        ["runs"],
        lambda job: job.has("Running") and job.attained_gpu_seconds > seen.attained_gpu_seconds,
        "attaining further service",
        120,
    )["runs"]
    assert now.status.attempt == seen.status.attempt
    assert containers(bench)["runs-0"] == before["runs-0"]


@pytest.mark.long
def test_the_device_plugin_and_the_agent_are_killed_together(bench: Bench) -> None:
    """No process is left: the kubelet's records, the folders and the state file must suffice."""
    before = start_two_jobs(bench)
    held = connected(bench)
    restarts = {part: restart_counts(bench.laneway, part) for part in ("device-plugin", "node-agent")}

    kill(bench.laneway, *restarts)
    for part, counts in restarts.items():
        wait_until_restarted(bench.laneway, part, counts)

    bench.laneway.installation.wait_until_advertised(400)
    wait_until_training(bench)
    assert containers(bench) == before
    assert {pod: (each["key"], each["gpu"]) for pod, each in connected(bench).items()} == {
        pod: (each["key"], each["gpu"]) for pod, each in held.items()
    }
    bench.jobs.apply([training_job("after", steps=5)])
    bench.jobs.wait(["after"], lambda job: job.has("Complete"), "running after the kill", 240)


def test_a_plain_pod_gets_a_share_and_a_session(bench: Bench) -> None:
    """A pod that requests the resource is held to it, TrainingJob or not."""
    job = training_job("plain", steps=100_000, pace_seconds=0.02)
    spec = job["spec"]["template"]["spec"]
    spec["containers"][0]["resources"] = {"limits": {GPU_PERCENT: "20"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": spec}
    bench.jobs.apply([pod])
    try:
        wait_until(lambda: set(connected(bench)) == {"plain"}, "the plain pod's client is connected", 180)
        wait_until(
            lambda: connected(bench)["plain"]["enforcement"] == "Watchdog", "the watchdog holds it too", 120
        )
        session = connected(bench)["plain"]
        assert session["sharePercent"] == 20
        assert session.get("job") is None
    finally:
        bench.laneway.kubectl.run(
            "delete", "pod", "plain", "--namespace", bench.namespace, "--grace-period=1"
        )
