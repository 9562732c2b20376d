"""`down` leaves nothing behind, even after crashes.

The tests look for leftovers on their own, by what they noted while the cluster ran, and not through the teardown's scan.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from hack.cluster import embedded
from hack.cluster.cache import exclusive
from hack.cluster.embedded import RunningCluster
from hack.cluster.layout import bridge_of, cluster_folder, load_cluster, state_root
from hack.cluster.probes import wait_until
from hack.cluster.processes import enter_namespaces
from hack.cluster.teardown import bring_down, leftovers

BUSYBOX = "localhost/laneway/test-busybox:1"


@dataclass(frozen=True)
class Footprint:
    """What a running cluster is seen to consist of: processes by pid and start time, and its namespaces."""

    name: str
    processes: frozenset[tuple[int, str]]
    namespaces: frozenset[str]


def _everyone() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _start_time(int(entry))]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _namespaces(pid: int) -> set[str]:
    found = set()
    for kind in ("net", "mnt"):
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
        except OSError:
            continue
    return found


def _start_time(pid: int) -> str:
    """In clock ticks since boot: the 22nd field of proc(5)'s stat, counted behind the name in parentheses.

    Empty for a process that ended, be it that init has not yet taken notice of it (a zombie).
    """
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if fields and fields[0] != "Z" else ""


def _footprint(name: str) -> Footprint:
    """Take note of the cluster's processes, and of others that are in its namespaces: afterwards a namespace's number may be another's."""
    members = {pid for pid in _everyone() if f"/laneway-{name}/" in _read(f"/proc/{pid}/cgroup")}
    namespaces = {namespace for pid in members for namespace in _namespaces(pid)} - _namespaces(os.getpid())
    members |= {pid for pid in _everyone() if not namespaces.isdisjoint(_namespaces(pid))}
    started = {pid: _start_time(pid) for pid in members}
    return Footprint(name, frozenset(item for item in started.items() if item[1]), frozenset(namespaces))


def _assert_gone(footprint: Footprint, subnet: int) -> None:
    name = footprint.name
    for pid, started in footprint.processes:
        assert _start_time(pid) != started, f"process {pid} is still there: {_read(f'/proc/{pid}/cmdline')}"
    for pid in _everyone():
        assert f"laneway-{name}" not in _read(f"/proc/{pid}/cgroup")
        assert f"/{name}/nodes/" not in _read(f"/proc/{pid}/mountinfo"), (
            f"process {pid} holds a mount of the cluster"
        )
    # Unlike a glob, a walk does not mind that the cgroups of other tests end meanwhile.
    assert not [here for here, below, _ in os.walk("/sys/fs/cgroup") if f"laneway-{name}" in below]
    assert (
        bridge_of(name)
        not in subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    )
    routes = subprocess.run(
        ["ip", "route", "show", "table", "all"], capture_output=True, text=True, check=True
    ).stdout
    assert f"10.{subnet}." not in routes
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    assert bridge_of(name) not in rules
    assert not cluster_folder(name).exists()
    assert leftovers(name) == []


def _run_pod(running: RunningCluster, name: str) -> None:
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "100000"],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
    running.kubectl.run("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    running.kubectl.run("apply", "--filename", "-", stdin=yaml.safe_dump(pod))
    running.kubectl.run("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")


def test_down_leaves_nothing_of_a_healthy_cluster(one_node: RunningCluster) -> None:
    _run_pod(one_node, "sleeper")
    footprint = _footprint(one_node.cluster.name)
    assert len(footprint.processes) >= len(
        ("etcd", "apiserver", "controllers", "scheduler", "dns", "kubelet", "shim")
    )
    assert len(footprint.namespaces) >= len(
        ("node's network", "node's mounts", "pod's network", "pod's mounts")
    )
    bring_down(one_node.cluster.name)
    _assert_gone(footprint, one_node.cluster.subnet)


@pytest.mark.parametrize(
    "crashed",
    [
        pytest.param(("kube-apiserver", "etcd"), id="control-plane", marks=pytest.mark.long),
        pytest.param(("node/kubelet", "node/containerd", "node/kube-proxy"), id="all-of-a-node"),
        pytest.param(
            ("node/holder", "kube-controller-manager"), id="holder-of-the-namespaces", marks=pytest.mark.long
        ),
    ],
)
def test_down_leaves_nothing_after_a_crash(one_node: RunningCluster, crashed: tuple[str, ...]) -> None:
    _run_pod(one_node, "sleeper")
    node = one_node.nodes[0]
    # A process in the node's namespaces that is in no cgroup of the cluster.
    pid = node.holder.pid()
    assert pid is not None
    with subprocess.Popen([*enter_namespaces(pid), "sleep", "100000"]) as visitor:
        wait_until(lambda: _namespaces(visitor.pid) == _namespaces(pid), "the visitor entering the node", 60)
        footprint = _footprint(one_node.cluster.name)
        for name in crashed:
            component = (
                node.holder
                if name == "node/holder"
                else one_node.component(name.replace("node/", f"{node.plan.name}/"))
            )
            component.kill()
        bring_down(one_node.cluster.name)
        assert visitor.wait(timeout=60) == -signal.SIGKILL
    _assert_gone(footprint, one_node.cluster.subnet)


def test_up_mends_a_cluster_of_which_parts_have_crashed(one_node: RunningCluster) -> None:
    _run_pod(one_node, "sleeper")
    node = one_node.nodes[0]
    for component in (
        one_node.component("etcd"),
        one_node.component("coredns"),
        node.component("kubelet"),
        node.holder,
    ):
        component.kill()
    embedded.bring_up(one_node.cluster.name, 1)
    assert one_node.kubectl.ready_nodes() == {node.plan.name}
    _run_pod(one_node, "another")


@pytest.mark.parametrize(
    "reached",
    [
        pytest.param("kube-apiserver", marks=pytest.mark.long),
        pytest.param("coredns", marks=pytest.mark.long),
        "it-killed-node-1/containerd",
        pytest.param("it-killed-node-1/kubelet", marks=pytest.mark.long),
    ],
)
def test_down_leaves_nothing_of_an_up_that_was_killed(reached: str, root: None, tmp_path: Path) -> None:
    """`up` is killed as soon as a component runs; then `down`, and once more, for there may be nothing at all."""
    name = "it-killed"
    with exclusive(state_root() / ".locks" / f"tests-{name}.lock"):
        bring_down(name)
        log = tmp_path / "up.log"
        with log.open("w") as output:
            up = subprocess.Popen(
                [sys.executable, "-m", "hack.cluster", "up", "--name", name, "--nodes", "1"],
                env={key: value for key, value in os.environ.items() if key != "KUBECONFIG"},
                stdout=output,
                stderr=output,
            )
        try:
            wait_until(
                lambda: (
                    load_cluster(name) is not None
                    and embedded.open_cluster(name).component(reached).pid() is not None
                ),
                f"{reached} running",
                timeout_seconds=180,
                still_possible=lambda: up.poll() is None,
                log=log,
            )
        finally:
            up.kill()
            up.wait()
        cluster = load_cluster(name)
        assert cluster is not None
        footprint = _footprint(name)
        assert footprint.processes
        bring_down(name)
        _assert_gone(footprint, cluster.subnet)
        bring_down(name)


def test_two_clusters_run_side_by_side_and_one_goes_alone(one_node: RunningCluster) -> None:
    name = "it-beside"
    with exclusive(state_root() / ".locks" / f"tests-{name}.lock"):
        bring_down(name)
        try:
            embedded.bring_up(name, 1)
            beside = embedded.open_cluster(name)
            assert beside.cluster.subnet != one_node.cluster.subnet
            assert beside.kubectl.ready_nodes() == {f"{name}-node-1"}
            footprint = _footprint(name)
        finally:
            bring_down(name)
        _assert_gone(footprint, beside.cluster.subnet)
        _run_pod(one_node, "undisturbed")
