"""What ``doctor`` concludes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from laneway.cli.diagnosis import Finding, Level, Observations, Right, diagnose
from laneway.cli.gpu_node_format import (
    NodeReport,
    container_table,
    containers_on_gpus,
    gpu_table,
    node_report,
    node_table,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
GPU = {
    "uuid": "GPU-1", "index": 0, "model": "Test", "memoryBytes": 1 << 30, "allocatableBytes": 1 << 30,
    "allocatablePercent": 100, "healthy": True, "enforcement": "Interposer",
}  # fmt: skip
SESSION = {
    "key": "k", "namespace": "team", "pod": "a-0", "container": "trainer", "sharePercent": 50, "quotaBytes": 512 << 20,
    "state": "Holding", "lane": 0, "heldBytes": 256 << 20, "iterationMicroseconds": 1500, "iterations": 7,
}  # fmt: skip


def a_report(name: str = "n1", conditions: Sequence[dict[str, Any]] = (), **gpu: Any) -> NodeReport:
    status = {"deviceStrategy": "cdi", "gpus": [GPU | gpu], "conditions": [*conditions]}
    return node_report({"metadata": {"name": name}, "status": status})


def a_node(name: str = "n1", ready: str = "True", **allocatable: str) -> dict[str, Any]:
    offered = {"laneway.dev/gpu-percent": "100"} if not allocatable else {}
    return {
        "metadata": {"name": name},
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "message": "kubelet says so"}],
            "allocatable": offered
            | {key.replace("__", "/").replace("_", "."): value for key, value in allocatable.items()},
        },
    }


def a_condition(type_: str, status: str, message: str) -> dict[str, Any]:
    return {
        "type": type_,
        "status": status,
        "reason": "R",
        "message": message,
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }


def a_pod(component: str, container: str, image: str = "", **state: Any) -> dict[str, Any]:
    """A pod with a container of Laneway, and one that the cluster adds to pods."""
    labels = {"app.kubernetes.io/component": component}
    status = {"name": container, "ready": not state, "state": state or {"running": {}}}
    containers = [
        {"name": container, "image": image or f"ghcr.io/laneway/{container}:1"},
        {"name": "istio-proxy", "image": "istio/proxyv2:1.29.0"},
    ]
    return {
        "metadata": {"name": f"laneway-{component}", "namespace": "laneway-system", "labels": labels},
        "spec": {"nodeName": "n1", "containers": containers},
        "status": {"containerStatuses": [status]},
    }


def a_lease(seconds_ago: float) -> dict[str, Any]:
    renewed = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    return {"metadata": {"name": "node.n1"}, "spec": {"renewTime": renewed}}


HEALTHY = Observations(
    cli_version="1",
    kubernetes_version="v1.36.0",
    resources=frozenset({"trainingjobs", "trainingjobs/status", "gpunodes", "trainingprofiles"}),
    namespace="team",
    rights=[Right("create", "trainingjobs", True)],
    pods=[a_pod("operator", "operator"), a_pod("node", "device-plugin")],
    nodes=[a_node()],
    reports=[a_report()],
    leases=[a_lease(5)],
    now=NOW,
)


def problems(observed: Observations) -> list[Finding]:
    return [each for each in diagnose(observed) if each.level is not Level.OK]


def test_all_is_well() -> None:
    assert problems(HEALTHY) == []
    assert [each.subject for each in diagnose(HEALTHY)] == [
        "kubernetes", "installation", "rights", "pods", "versions", "node n1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "level", "subject", "message"),
    [
        ({"kubernetes_version": "v1.29.4"}, Level.FAILED, "kubernetes", "v1.29.4 is too old"),
        ({"resources": frozenset()}, Level.FAILED, "installation", "the cluster has no TrainingJobs"),
        ({"resources": frozenset({"trainingjobs", "gpunodes"})}, Level.FAILED, "installation", "the cluster has no trainingprofiles"),
        ({"rights": [Right("delete", "trainingjobs", False)]}, Level.WARNING, "rights", "in namespace team you may not delete trainingjobs"),
        ({"pods": None}, Level.UNKNOWN, "pods", "you may not list Laneway's pods"),
        ({"pods": [a_pod("node", "node-agent")]}, Level.FAILED, "operator", "no pod of the operator exists"),
        ({"cli_version": "2"}, Level.WARNING, "versions", "the cluster runs 1, and this command is 2"),
        (
            {"pods": [a_pod("operator", "operator"), a_pod("node", "device-plugin", waiting={"reason": "CrashLoopBackOff"})]},
            Level.FAILED, "pod laneway-node", "the device plugin on n1 is not ready: CrashLoopBackOff",
        ),
        ({"nodes": None}, Level.UNKNOWN, "nodes", "you may not list nodes"),
        ({"reports": None}, Level.UNKNOWN, "nodes", "you may not list GPUNodes"),
        ({"nodes": None, "reports": None}, Level.UNKNOWN, "nodes", "you may not list nodes and GPUNodes"),
        ({"nodes": [a_node(), a_node("n2", nvidia_com__gpu="8")]}, Level.WARNING, "node n2", "it has NVIDIA GPUs and no agent of Laneway"),
        ({"nodes": [], "reports": []}, Level.FAILED, "nodes", "no node has reported GPUs"),
        ({"nodes": []}, Level.WARNING, "node n1", "it has a GPUNode and is no node of the cluster"),
        ({"nodes": [a_node(ready="Unknown")]}, Level.FAILED, "node n1", "its kubelet is not ready: kubelet says so"),
        ({"leases": [a_lease(90)]}, Level.FAILED, "node n1", "its agent has been silent for 1m30s"),
        ({"nodes": [a_node(cpu="8")]}, Level.FAILED, "node n1", "its kubelet offers no laneway.dev/gpu-percent: the device plugin has not registered"),
        ({"reports": [a_report(conditions=[a_condition("Ready", "False", "no driver")])]}, Level.FAILED, "node n1", "no driver (R)"),
        ({"reports": [a_report(conditions=[a_condition("DoublyOffered", "True", "offered twice")])]}, Level.FAILED, "node n1", "offered twice"),
        ({"reports": [a_report(simulated=True)]}, Level.WARNING, "node n1", "GPU 0 is simulated"),
        ({"reports": [a_report(healthy=False, healthReason="XID 79")]}, Level.FAILED, "node n1", "GPU 0 is not healthy: XID 79"),
        (
            {"reports": [a_report(enforcement="Watchdog", enforcementReason="no MPS: it does not run")]},
            Level.WARNING, "node n1", "GPU 0 has the enforcement Watchdog: no MPS: it does not run",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong(changes: dict[str, Any], level: Level, subject: str, message: str) -> None:
    found = problems(replace(HEALTHY, **changes))
    assert [(each.level, each.subject, each.message) for each in found] == [(level, subject, message)]
    assert found[0].advice or subject == "node n1"


@pytest.mark.parametrize(
    ("unreadable", "asks_for"),
    [
        (["nodes"], ["the right to list nodes"]),
        (["reports"], ["the ClusterRole that ends with gpunodes-view"]),
        (["nodes", "reports"], ["the right to list nodes", "the ClusterRole that ends with gpunodes-view"]),
    ],
)
def test_what_may_not_be_read_is_asked_for_and_nothing_else(
    unreadable: list[str], asks_for: list[str]
) -> None:
    (found,) = problems(replace(HEALTHY, **dict.fromkeys(unreadable)))
    assert found.advice == f"ask an administrator to run this, or for {' and '.join(asks_for)}"


def test_gpu_nodes_are_checked_without_the_nodes() -> None:
    sick = a_report(healthy=False, healthReason="XID 79")
    found = problems(replace(HEALTHY, nodes=None, reports=[sick], leases=[a_lease(90)]))
    assert [(each.subject, each.message) for each in found] == [
        ("nodes", "you may not list nodes"),
        ("node n1", "its agent has been silent for 1m30s"),
        ("node n1", "GPU 0 is not healthy: XID 79"),
    ]
    found = problems(replace(HEALTHY, nodes=None, reports=[]))
    assert [each.message for each in found] == ["you may not list nodes", "no node has reported GPUs"]


def test_what_to_do_about_gpus_that_another_plugin_offers() -> None:
    twice = a_condition("DoublyOffered", "True", "offered twice")
    (found,) = problems(replace(HEALTHY, reports=[a_report(conditions=[twice])]))
    assert "node.nodeSelector" in found.advice


def test_what_to_do_about_a_simulated_gpu() -> None:
    (found,) = problems(replace(HEALTHY, reports=[a_report(simulated=True)]))
    assert "gpu.source" in found.advice


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("no interposer: its self-test on driver 570 failed: it was ended by SIGSEGV", "interposer-tests.json"),
        ("no interposer: its self-test did not run: no GPU to run it on: GPU 0 is in the compute mode EXCLUSIVE_PROCESS", "--compute-mode DEFAULT"),
        ("no interposer: /x/ld.so.preload does not exist; it comes with the client's image", "init container client"),
        ("no MPS: nvidia-cuda-mps-control is not in the agent's container", "MPS programs"),
        ("no MPS: the MPS control daemon does not answer: no answer within 10 s", "component=mps-daemon"),
        ("no MPS: the GPU accepts processes that bypass the MPS server; set its compute mode", "run that command"),
        ("no MPS: MPS limits memory from compute capability 7.0 (Volta), and the GPU has 6.1", "nodeGroups"),
        ("no watchdog: the agent lacks the capability KILL, so it cannot stop other users' processes", "policy"),
        ("no watchdog: watchdog.action is Warn, so no process is stopped", "watchdog.action: Evict"),
        ("no watchdog: something new", "spec.minimumEnforcement"),
    ],
)  # fmt: skip
def test_what_to_do_about_a_lowered_level(reason: str, says: str) -> None:
    (found,) = problems(
        replace(HEALTHY, reports=[a_report(enforcement="Watchdog", enforcementReason=reason)])
    )
    assert says in found.advice


@pytest.mark.parametrize(
    ("level", "says"),
    [
        ("Cooperative", "1 GPUs are shared; only clients hold quotas"),
        (
            "Watchdog",
            "1 GPUs are shared; the watchdog holds quotas, neither the interposer nor MPS is requested",
        ),
        ("Interposer", "1 GPUs are shared; the interposer holds quotas, MPS is not requested"),
        ("MPS", "1 GPUs are shared; the MPS server holds quotas"),
    ],
)
def test_a_node_where_all_is_well_says_what_holds_quotas(level: str, says: str) -> None:
    *_, node = diagnose(replace(HEALTHY, reports=[a_report(enforcement=level)]))
    assert node.message.startswith(says)


def test_a_gpu_with_room_for_one_process_is_a_problem_of_sharing() -> None:
    warning = "only one process at a time can use it: its compute mode is EXCLUSIVE_PROCESS, and MPS is not in force"
    (found,) = problems(replace(HEALTHY, reports=[a_report(healthReason=warning)]))
    assert (found.level, found.message) == (Level.WARNING, f"GPU 0: {warning}")
    assert "--compute-mode DEFAULT" in found.advice
    assert "enforcement.level: MPS" in found.advice


@pytest.mark.parametrize(
    ("gpu", "session", "outside"),
    [
        ({}, {"enforcement": "Watchdog"}, True),
        ({"enforcement": "MPS"}, {"enforcement": "Watchdog"}, True),
        ({"enforcement": "MPS"}, {"enforcement": "Interposer"}, False),
        ({}, {"enforcement": "Watchdog", "heldBytes": 0}, False),
        ({}, {"enforcement": "Watchdog", "state": "Ended"}, False),
        ({"enforcement": "Watchdog"}, {"enforcement": "Watchdog"}, False),
    ],
)
def test_containers_that_the_interposer_does_not_hold(
    gpu: dict[str, Any], session: dict[str, Any], outside: bool
) -> None:
    found = problems(replace(HEALTHY, reports=[a_report(sessions=[SESSION | session], **gpu)]))
    text = "GPU 0: the interposer is not in all processes of team/a-0; only the watchdog holds them"
    assert [each.message for each in found] == ([text] if outside else [])


@pytest.mark.parametrize(
    ("image", "runs"),
    [
        ("ghcr.io/laneway/operator:1", None),
        ("registry.example:5000/laneway/operator:1@sha256:0123", None),
        ("registry.example:5000/laneway/operator:2", "2"),
        ("laneway/operator:latest", "latest"),
        ("registry.example:5000/laneway/operator@sha256:0123", None),
        ("registry.example:5000/laneway/operator", None),
    ],
)
def test_a_version_is_the_tag_of_the_image_that_a_pod_runs(image: str, runs: str | None) -> None:
    """The chart's labels say which chart was installed, whatever `image.tag` is."""
    found = problems(replace(HEALTHY, pods=[a_pod("operator", "operator", image)]))
    want = [] if runs is None else [f"the cluster runs {runs}, and this command is 1"]
    assert [each.message for each in found] == want


def test_pods_of_several_versions_are_named_by_their_containers() -> None:
    pods = [
        a_pod("operator", "operator"),
        a_pod("node", "node-agent"),
        a_pod("mps-daemon", "mps-daemon", "ghcr.io/laneway/node-agent:0.9"),
        a_pod("mps-daemon", "mps-daemon", "ghcr.io/laneway/node-agent:1"),
    ]
    (found,) = problems(replace(HEALTHY, pods=pods))
    assert (found.level, found.subject) == (Level.WARNING, "versions")
    assert found.message == (
        "the cluster runs 0.9 (mps-daemon) and 1 (mps-daemon, node-agent, operator), and this command is 1"
    )
    assert "upgrades do not replace an MPS daemon" in found.advice
    assert "drain its node" in found.advice
    pods[2:] = [a_pod("node", "device-plugin", "ghcr.io/laneway/device-plugin:2")]
    (found,) = problems(replace(HEALTHY, pods=pods))
    assert (
        found.message
        == "the cluster runs 1 (node-agent, operator) and 2 (device-plugin), and this command is 1"
    )
    assert "MPS" not in found.advice


def test_a_pod_that_has_ended_runs_no_version() -> None:
    evicted = a_pod("operator", "operator", "ghcr.io/laneway/operator:0.9")
    evicted["status"] = {"phase": "Failed"}
    assert problems(replace(HEALTHY, pods=[evicted, a_pod("operator", "operator")])) == []


def test_an_mps_daemon_that_fails_is_named() -> None:
    pod = a_pod("mps-daemon", "mps-daemon", waiting={"reason": "CrashLoopBackOff"})
    (found,) = problems(replace(HEALTHY, pods=[a_pod("operator", "operator"), pod]))
    assert found.message == "the MPS daemon on n1 is not ready: CrashLoopBackOff"


def test_a_pod_without_a_node_says_why() -> None:
    pod = a_pod("operator", "operator")
    del pod["spec"]["nodeName"]
    pod["status"] = {"conditions": [{"type": "PodScheduled", "message": "no CPUs left"}]}
    (found,) = problems(replace(HEALTHY, pods=[pod]))
    assert found.message == "it has no node: no CPUs left"
    assert found.advice == "kubectl describe pod -n laneway-system laneway-operator"


def test_tables_of_nodes_gpus_and_containers() -> None:
    gone = SESSION | {"key": "g", "pod": "gone-0", "state": "Ended"}
    other = SESSION | {"key": "o", "namespace": "x", "pod": "b-0", "heldBytes": 1 << 30, "lane": None}
    reports = [a_report(sessions=[SESSION, gone, other], lanes=[{"id": 0, "ephemeralBytes": 1}])]
    assert node_table(reports).splitlines()[1].split() == [
        "n1", "Unknown", "1", "1", "Test", "100%", "of", "100%", "Interposer", "2",
    ]  # fmt: skip
    assert gpu_table(reports).splitlines()[1].split()[:8] == [
        "n1", "0", "GPU-1", "Test", "1.0", "GiB", "1.2", "GiB",
    ]  # fmt: skip
    lines = container_table(containers_on_gpus(reports, None), namespaces=True).splitlines()
    assert [line.split()[0] for line in lines] == ["POD", "x/b-0", "team/a-0"]
    (of_team,) = containers_on_gpus(reports, "team")
    cells = ["a-0", "n1", "0", "0", "50%", "256.0", "MiB", "512.0", "MiB", "Holding", "1.5", "ms", "7", "-"]
    assert container_table([of_team]).splitlines()[1].split() == cells
    wide = container_table([of_team], wide=True).splitlines()[1].split()
    assert wide == [*cells, SESSION["container"], "GPU-1", "None"]
    assert containers_on_gpus(reports, "nobody") == []
