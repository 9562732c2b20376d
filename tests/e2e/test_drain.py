"""An administrator cordons, drains and taints a node with real workers: gangs move or wait as a whole, and come back to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hack.cluster.probes import wait_until
from hack.demo.install import laneway_pods
from hack.demo.jobs import JobView
from tests.e2e.conftest import Bench
from tests.e2e.manifests import EXCLUSIVE_NODE, SHARED_FOLDER, small_job, training_job
from tests.e2e.node_view import connected, wait_until_further

_FOREVER = 10_000_000
_TAINT = "maintenance=yes:NoExecute"
_FOR_A_WHILE = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}


@pytest.fixture
def administered(bench: Bench) -> Iterator[Bench]:
    """A bench whose nodes are all in use again when the test is over."""
    yield bench
    laneway = bench.laneway
    for node in sorted(laneway.kubectl.ready_nodes()):
        laneway.kubectl.run("uncordon", node)
        laneway.kubectl.succeeds("taint", "node", node, f"{_TAINT}-")
    laneway.installation.wait_until_advertised(400)


def nodes_of(job: JobView) -> list[str]:
    return [worker.node for worker in job.status.placement]


def operators_node(bench: Bench) -> str:
    (pod,) = laneway_pods(bench.laneway.installation.target, "operator")
    node: str = pod["spec"]["nodeName"]
    return node


def says(job: JobView, words: str) -> bool:
    return job.status.waiting is not None and words in job.status.waiting.message


def disruptions(bench: Bench, job: str) -> list[str]:
    events = bench.laneway.kubectl.get("events", "--namespace", bench.namespace)["items"]
    return [
        event["message"]
        for event in events
        if (event["involvedObject"]["name"], event["reason"]) == (job, "Disrupted")
    ]


def sessions_on(bench: Bench, node: str) -> list[str]:
    """Returns the test's pods that hold shares of a node's GPUs by its GPUNode."""
    gpus = bench.laneway.kubectl.get("gpunode", node)["status"]["gpus"]
    return [
        session["pod"]
        for gpu in gpus
        for session in gpu["sessions"]
        if session["namespace"] == bench.namespace and session["state"] != "Ended"
    ]


def resumed_at(bench: Bench, job: str, attempt: int) -> list[int]:
    """The steps at which the ranks of an attempt began, as far as they have said so."""
    bench.follow()
    lives = [bench.outputs.attempts(job, rank) for rank in (0, 1)]
    events = [event for life in lives for each in life if each.attempt == attempt for event in each.events]
    return [event["step"] for event in events if event["event"] == "start"]


def test_a_node_is_cordoned_drained_tainted_and_used_again(administered: Bench) -> None:
    bench, kubectl = administered, administered.laneway.kubectl
    jobs = bench.jobs
    checkpoint = f"{SHARED_FOLDER}/{bench.namespace}.pt"
    apart = {
        "workers": 2,
        "gpus": {"type": "Share", "sharePercent": 30},
        "placement": "Spread",
        "backoffLimit": 0,
    }
    jobs.apply([training_job("gang", spec=apart, steps=_FOREVER, pace_seconds=0.05, checkpoint=checkpoint)])
    gang = jobs.wait(["gang"], lambda job: job.has("Running"), "running", 180)["gang"]
    attempt = gang.status.attempt
    # The operator runs on it and is ended at the same moment.
    goes = operators_node(bench)
    (stays,) = set(nodes_of(gang)) - {goes}
    assert set(nodes_of(gang)) == {stays, goes}
    for rank in (0, 1):
        wait_until_further(bench, f"gang-{rank}", 5)
    jobs.wait(["gang"], lambda job: job.attained_gpu_seconds > 0, "attaining service", 120)

    # A cordon: running workers stay, new ones wait.
    kubectl.run("cordon", goes)
    whole = {"workers": 2, **EXCLUSIVE_NODE, "backoffLimit": 0}
    both = small_job("both", spec=whole, tolerations=[_FOR_A_WHILE])
    jobs.apply([both])
    jobs.wait(
        ["both"], lambda job: says(job, f"{goes} takes no workers (it is cordoned)"), "naming the node", 120
    )
    gang = jobs.view("gang")
    assert gang.has("Running")
    assert gang.status.attempt == attempt

    # A drain: one worker is evicted, and the whole gang resumes elsewhere from the step at which both ranks stopped.
    kubectl.run("drain", goes, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
    moved = jobs.wait(
        ["gang"],
        lambda job: job.has("Running") and job.status.attempt > attempt,
        "running elsewhere",
        240,
        bench.follow,
    )["gang"]
    assert nodes_of(moved) == [stays, stays]
    assert (moved.status.restarts, moved.status.preemptions) == (0, 0), "nobody's failure"
    assert goes not in {each.node for each in moved.status.avoid}, "the cordon says it all"
    assert moved.attained_gpu_seconds >= gang.attained_gpu_seconds > 0
    wait_until(
        lambda: any(
            f"was taken away from {goes}: EvictionByEvictionAPI" in note
            or f"which was on {goes}, is gone" in note
            for note in disruptions(bench, "gang")
        ),
        "an event that names the eviction or the missing pod (the drain ends the operator too)",
        120,
    )
    latest = moved.status.attempt
    wait_until(lambda: len(resumed_at(bench, "gang", latest)) == 2, "both ranks have begun again", 180)
    first, second = resumed_at(bench, "gang", latest)
    assert first == second > 0, "both ranks stopped at one boundary, within their grace"
    wait_until(lambda: not sessions_on(bench, goes), "the drained node's GPUs are free", 120)

    # Uncordoned: it is used again, at once.
    kubectl.run("uncordon", goes)
    kubectl.run("delete", "trainingjob", "gang", "--namespace", bench.namespace)
    both_run = jobs.wait(["both"], lambda job: job.has("Running"), "running on both nodes", 240)["both"]
    assert sorted(nodes_of(both_run)) == sorted([stays, goes])
    wait_until(lambda: {"both-0", "both-1"} <= set(connected(bench)), "their clients are connected", 120)

    # A taint that its template tolerates for a while: then one worker is evicted, and the gang waits as a whole.
    kubectl.run("taint", "node", goes, _TAINT)
    waits = jobs.wait(
        ["both"],
        lambda job: says(
            job, f"cannot go to {goes}, since the template does not tolerate the taint {_TAINT}"
        ),
        "naming the node and the taint",
        240,
    )["both"]
    assert (waits.status.restarts, waits.status.preemptions, waits.status.avoid) == (0, 0, ())
    wait_until(lambda: jobs.pods("both") == [], "none of its pods is left", 120)
    wait_until(lambda: not sessions_on(bench, stays), "the other node's GPUs are free too", 120)

    kubectl.run("taint", "node", goes, f"{_TAINT}-")
    again = jobs.wait(
        ["both"],
        lambda job: job.has("Running") and job.status.attempt > both_run.status.attempt,
        "running again",
        600,
    )
    assert sorted(nodes_of(again["both"])) == sorted([stays, goes])
