"""Quotas hold for pods without a client, and no pod starts where it is held by less than it demands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from laneway.api.names import GPU_PERCENT, MINIMUM_ENFORCEMENT_ANNOTATION

from hack.cluster import cgroups
from hack.cluster.probes import wait_until
from hack.demo.jobs import JobView
from tests.e2e.conftest import Bench, Laneway
from tests.e2e.manifests import SMALL_IMAGE, training_job
from tests.e2e.node_view import gpu_status, set_simulated_faults

_WORKS = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); time.sleep(3600)"
_MARK = "time.sleep(3600)"
QUOTA = f"{(512 - 16) / 10:.1f} MiB"
"""Of 10 percent of one of the cluster's GPUs."""


def clientless_pod(name: str, percent: int, *, minimum: str = "") -> dict[str, Any]:
    """A plain pod whose Python never imports PyTorch, so that the client is not loaded."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": {MINIMUM_ENFORCEMENT_ANNOTATION: minimum} if minimum else {},
        },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "trainer",
                    "image": SMALL_IMAGE,
                    "imagePullPolicy": "Never",
                    "command": ["python3", "-I", "-S", "-c", _WORKS],
                    "resources": {"limits": {GPU_PERCENT: str(percent)}},
                }
            ],
        },
    }


@pytest.fixture
def sound(bench: Bench) -> Iterator[Bench]:
    """A bench on which nothing is injected any more when the test is over."""
    yield bench
    for node in bench.laneway.kubectl.get("gpunodes")["items"]:
        set_simulated_faults(bench.laneway, node["metadata"]["name"])


def pod_of(bench: Bench, name: str) -> dict[str, Any]:
    return dict(bench.laneway.kubectl.get("pod", name, "--namespace", bench.namespace))


def until_phase(bench: Bench, name: str, phase: str, seconds: int) -> None:
    wait = ("wait", f"--for=jsonpath={{.status.phase}}={phase}", f"pod/{name}", f"--timeout={seconds}s")
    bench.laneway.kubectl.run(*wait, "--namespace", bench.namespace)


def sessions_of(laneway: Laneway, pod: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What the pod's node says of it, if it says anything: the GPU, and the session."""
    status = laneway.kubectl.get("gpunode", pod["spec"]["nodeName"])["status"]
    return [
        (gpu, session)
        for gpu in status["gpus"]
        for session in gpu.get("sessions", ())
        if session.get("podUID") == pod["metadata"]["uid"]
    ]


def until_session(
    laneway: Laneway,
    pod: dict[str, Any],
    what: str,
    holds: Callable[[dict[str, Any]], bool],
    seconds: int = 120,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Wait until the pod's node says something of its session; returns the GPU and the session."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def is_said() -> bool:
        found[:] = [(gpu, session) for gpu, session in sessions_of(laneway, pod) if holds(session)]
        return bool(found)

    wait_until(is_said, what, seconds)
    return found[0]


def process_of(laneway: Laneway, pod: dict[str, Any]) -> int:
    """The process that the pod's container runs, as the nodes' kernel counts."""
    for pid in cgroups.processes(laneway.cluster.cluster.cgroup):
        folder = Path(f"/proc/{pid}")
        try:
            if pod["metadata"]["uid"] in (folder / "cgroup").read_text() and _MARK in (
                folder / "cmdline"
            ).read_text(errors="replace"):
                return pid
        except OSError:
            continue
    raise AssertionError("the pod's process is not there")


def test_a_pod_without_a_client_is_stopped_over_its_quota_and_says_why(sound: Bench) -> None:
    laneway = sound.laneway
    sound.jobs.apply([clientless_pod("greedy", 10), clientless_pod("modest", 10)])
    for name in ("greedy", "modest"):
        until_phase(sound, name, "Running", 120)
    greedy = pod_of(sound, "greedy")
    gpu, session = until_session(
        laneway, greedy, "the watchdog holds it", lambda each: each["enforcement"] == "Watchdog"
    )
    assert session["state"] == "Allocated", "no client has connected"

    node, pid = greedy["spec"]["nodeName"], process_of(laneway, greedy)
    set_simulated_faults(laneway, node, {"gpu": gpu["index"], "processes": {pid: "120Mi"}})
    breach = (
        f"its process holds 120.0 MiB of GPU memory as the driver reports, more than its quota of {QUOTA}"
    )
    warning = f"{breach}; its processes will be stopped after 30 s"
    until_session(laneway, greedy, "it is warned", lambda each: warning in each.get("message", ""))
    until_phase(sound, "greedy", "Failed", 180)

    ended = pod_of(sound, "greedy")
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    _, session = until_session(
        laneway, greedy, "the node lets its share go", lambda each: each["state"] == "Ended"
    )
    assert session["evicted"] == "MemoryQuotaExceeded"
    assert f"stopped by the node agent after 30 s of grace: {breach}" in session["message"]
    assert pod_of(sound, "modest")["status"]["phase"] == "Running"


def test_a_job_whose_worker_is_stopped_fails_for_that_reason(sound: Bench) -> None:
    laneway = sound.laneway
    spec = {
        "gpus": {"type": "Share", "sharePercent": 10},
        "backoffLimit": 0,
        "minimumEnforcement": "Watchdog",
    }
    sound.jobs.apply([training_job("greedy", spec=spec, steps=100_000, pace_seconds=0.02)])
    running = sound.jobs.wait(["greedy"], lambda job: job.has("Running"), "running", 180, sound.follow)
    (worker,) = running["greedy"].status.placement
    index = gpu_status(laneway, worker.node, worker.gpus[0])["index"]
    set_simulated_faults(
        laneway, worker.node, {"gpu": index, "pods": {f"{sound.namespace}/greedy-0": "120Mi"}}
    )

    job = sound.jobs.wait(["greedy"], lambda job: job.ended, "the end", 240)["greedy"]

    (failed,) = [each for each in job.status.conditions if each.type == "Failed"]
    assert (failed.status, failed.reason) == ("True", "MemoryQuotaExceeded")
    assert f"more than its quota of {QUOTA}" in failed.message


def waits(bench: Bench, name: str) -> dict[str, Any]:
    """What the pod's container waits for; nothing while it does not."""
    states = pod_of(bench, name)["status"].get("containerStatuses", [{}])
    return dict(states[0].get("state", {}).get("waiting", {}))


def test_no_pod_starts_under_weaker_enforcement_than_it_demands(bench: Bench) -> None:
    bench.jobs.apply(
        [clientless_pod("strict", 10, minimum="MPS"), clientless_pod("held", 10, minimum="Watchdog")]
    )
    until_phase(bench, "held", "Running", 120)
    said = "it demands the enforcement 'MPS', and 'Interposer' is in force on its GPU"
    waiting: dict[str, Any] = {}

    def says_why() -> bool:
        waiting.clear()
        waiting.update(waits(bench, "strict"))
        return said in waiting.get("message", "")

    wait_until(says_why, "it says why it does not start", 120)
    assert waiting["reason"] == "CreateContainerConfigError"
    assert "the node's configuration asks for no more (enforcement.level)" in waiting["message"]
    assert pod_of(bench, "strict")["status"]["phase"] == "Pending"
    strict = pod_of(bench, "strict")
    until_session(bench.laneway, strict, "its node says so", lambda each: said in each.get("message", ""))


def test_a_job_that_demands_what_no_gpu_has_waits_and_says_so(bench: Bench) -> None:
    bench.jobs.apply(
        [
            training_job(
                "strict", spec={"gpus": {"type": "Share", "sharePercent": 10}, "minimumEnforcement": "MPS"}
            )
        ]
    )

    why = "It demands the enforcement MPS, and the GPUs that it accepts are held by Interposer (8)."

    def says_why(job: JobView) -> bool:
        return job.status.waiting is not None and (job.status.waiting.reason, job.status.waiting.message) == (
            "EnforcementNotInCluster",
            why,
        )

    bench.jobs.wait(["strict"], says_why, f"saying: {why}", 120)
    assert bench.jobs.pods() == []
