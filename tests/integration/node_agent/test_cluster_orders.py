"""Orders in the spec of a GPUNode on a real API server, followed by a real agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.node_agent.cluster import Cluster
from tests.support.node_agent.node import Node, PeerProcess, eventually
from tests.support.node_agent.pod_cgroup import PodCgroup
from tests.support.node_agent.shell import order

MakeNode = Callable[..., Node]


@pytest.fixture
def pod() -> Iterator[PodCgroup]:
    """The pod ``default/a``."""
    made = PodCgroup()
    yield made
    made.remove()


def process_of(node: Node, pod: PodCgroup) -> PeerProcess:
    """The process of the pod's container, connected and profiled."""
    process = node.container("a", 50, pod_uid=pod.uid).await_socket().process()
    pod.take(process)
    process.hello(can=["pause", "offload"])
    process.profile(50, 100)
    return process


def spec(node: Node, pod: PodCgroup, *orders: str) -> dict[str, Any]:
    given = [{"podUID": pod.uid, "order": what, "reason": "preempted"} for what in orders]
    return {
        "apiVersion": "laneway.dev/v1alpha1",
        "kind": "GPUNode",
        "metadata": {"name": node.name},
        "spec": {"orders": given},
    }


def give(cluster: Cluster, node: Node, pod: PodCgroup, *orders: str) -> None:
    """Apply orders as the operator does; without any, its earlier orders are withdrawn."""
    text = yaml.safe_dump(spec(node, pod, *orders))
    cluster.kubectl("apply", "--server-side", "--field-manager", "laneway-operator", "-f", "-", stdin=text)


def published(cluster: Cluster, node: Node) -> None:
    eventually("it is published", lambda: cluster.gpu_node(node.name).get("status"))


def test_a_pod_is_paused_offloaded_and_brought_back_by_the_spec(
    make_published: MakeNode, cluster: Cluster, pod: PodCgroup
) -> None:
    node = make_published().start("--port", "0")
    published(cluster, node)
    process = process_of(node, pod)
    process.do("write", word=11, value=50 << 20)
    give(cluster, node, pod, "Pause")
    process.expect("pause")
    process.send("paused")

    def session(state: str) -> dict[str, Any] | None:
        found = cluster.sessions(node.name).get("a", {})
        return found if found.get("state") == state else None

    paused = eventually("the cluster is told", lambda: session("Paused"))
    assert paused["message"] == "paused by order (preempted)"
    eventually("what it holds is told", lambda: cluster.sessions(node.name)["a"].get("heldBytes") == 50 << 20)

    give(cluster, node, pod, "Offload")
    process.expect("offload")
    process.do("write", word=11, value=0)
    process.send("offloaded", freed_bytes=50 << 20, seconds=0.1)
    offloaded = eventually("the cluster is told", lambda: session("Offloaded"))
    assert offloaded["offloadedBytes"] == 50 << 20
    assert "lane" not in offloaded

    give(cluster, node, pod)
    process.expect("restore")
    process.send("restored", seconds=0.1)
    process.expect("resume")
    assert process.turn() > 0
    eventually("the cluster is told", lambda: session("Holding"))


def test_the_stronger_of_two_orders_applies_and_the_other_stays(
    make_published: MakeNode, cluster: Cluster, pod: PodCgroup
) -> None:
    node = make_published().start("--port", "0")
    published(cluster, node)
    process = process_of(node, pod)
    order(node, "offload", "default/a")
    process.expect("pause")
    process.send("paused")
    process.expect("offload")
    process.send("offloaded", freed_bytes=50 << 20, seconds=0.1)
    give(cluster, node, pod, "Pause")
    listed = "cluster\tPause\tdefault/a\tpreempted"
    eventually("both are listed", lambda: listed in order(node, "list"))
    order(node, "restore", "default/a")
    eventually("the other's counts", lambda: "preempted" in node.session("a")["message"])
    assert node.session("a")["state"] == "Offloaded", "paused, and its memory is where it was"
    give(cluster, node, pod)
    process.expect("restore")


def test_the_node_leaves_the_orders_of_others_in_the_spec(
    make_published: MakeNode, cluster: Cluster, pod: PodCgroup
) -> None:
    node = make_published()
    give(cluster, node, pod, "Pause")
    node.start("--port", "0")
    published(cluster, node)
    process = process_of(node, pod)
    process.expect("pause")
    assert cluster.gpu_node(node.name)["spec"] == spec(node, pod, "Pause")["spec"]


def test_an_order_finds_a_pod_whose_uid_is_learned_later(
    make_published: MakeNode, cluster: Cluster, pod: PodCgroup
) -> None:
    node = make_published().start("--port", "0")
    published(cluster, node)
    give(cluster, node, pod, "Pause")
    container = node.container("a", 50).await_socket()
    process = container.process()
    process.hello(can=["pause"])
    assert process.receive(wait_seconds=0.5) == {"nothing": True}
    container.write(pod_uid=pod.uid)
    process.expect("pause")


def test_the_last_orders_stay_while_the_api_server_is_away(make_published: MakeNode, pod: PodCgroup) -> None:
    with LoopbackControlPlane() as plane:
        cluster = Cluster(plane)
        for path in sorted(Path("crds").glob("*.yaml")):
            cluster.apply(*yaml.safe_load_all(path.read_text()))
        plane.wait_for_crds()
        node = make_published(plane.kubeconfig).start("--port", "0")
        published(cluster, node)
        process = process_of(node, pod)
        give(cluster, node, pod, "Pause")
        process.expect("pause")
        process.send("paused")
        plane.kill("kube-apiserver")
        eventually("it is logged", lambda: "cannot read orders" in node.log, 60)
        node.kill()
        node.start("--port", "0")
        process.hello(n=1, can=["pause"])
        process.expect("pause", n=1)
        process.send("paused", n=1)
        process.send("request", n=1)
        assert process.receive(n=1, wait_seconds=0.5) == {"nothing": True}
        assert node.session("a")["state"] == "Paused"
        plane.start("kube-apiserver")
        eventually("it serves", lambda: cluster.gpu_node(node.name), 60)
        give(cluster, node, pod)
        assert process.receive(n=1, wait_seconds=60)["packet"]["type"] == "resume"
        process.expect("grant", n=1)


def test_a_node_without_read_access_logs_it_and_continues(
    make_published: MakeNode, cluster: Cluster, pod: PodCgroup
) -> None:
    stranger = cluster.plane.kubeconfig_for("stranger", "nobody")
    node = make_published(stranger).start("--port", "0")
    eventually("it is quoted", lambda: "cannot read orders, keeping the previous ones try=1" in node.log)
    process = process_of(node, pod)
    assert process.turn() == 1
