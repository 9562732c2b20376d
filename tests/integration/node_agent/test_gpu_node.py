"""The GPUNode that an agent keeps on a real API server."""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from kubernetes import config
from laneway.api.node_lease import lease_name
from laneway.node_agent.report.gpu_node_api import KubernetesWriter
from laneway.node_agent.report.no_gpus_publisher import REPAIR_SECONDS, NoGPUsPublisher
from laneway.node_agent.report.node_lease import NodeLease

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.node_agent.cluster import Cluster
from tests.support.node_agent.node import Node, eventually

MakeNode = Callable[..., Node]


def test_an_unhealthy_gpu_is_reported_with_the_reason(make_published: MakeNode, cluster: Cluster) -> None:
    node = make_published().start("--port", "0")
    eventually("it is published", lambda: cluster.gpu_node(node.name).get("status"))
    before_seconds = time.time()
    (node.root / "run/laneway/simulated-faults.yaml").write_text("gpus: [{gpu: 1, xids: [79]}]")

    def reported() -> dict[str, Any] | None:
        status = dict(cluster.gpu_node(node.name)["status"])
        return None if status["gpus"][1]["healthy"] else status

    status = eventually("it is reported", reported)
    sound, broken = status["gpus"]
    assert sound["healthy"]
    assert "unhealthySince" not in sound
    assert broken["healthReason"].startswith("XID 79 (GPU has fallen off the bus); it needs a reset")
    assert datetime.fromisoformat(broken["unhealthySince"]).timestamp() >= before_seconds
    conditions = {each["type"]: each for each in status["conditions"]}
    assert (conditions["Ready"]["status"], conditions["GPUsHealthy"]["status"]) == ("True", "False")
    assert conditions["GPUsHealthy"]["message"].startswith(f"{broken['uuid']}: XID 79")


def test_a_gpu_in_mig_mode_and_a_second_device_plugin_are_reported(
    make_published: MakeNode, cluster: Cluster
) -> None:
    node = make_published()
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}})
    status = {
        "allocatable": {"nvidia.com/gpu": "2"},
        "capacity": {"nvidia.com/gpu": "2"},
        "nodeInfo": {"containerRuntimeVersion": "containerd://2.1.4"},
    }
    cluster.kubectl(
        "patch", "node", node.name, "--subresource=status", "--patch", json.dumps({"status": status})
    )
    (node.root / "run/laneway").mkdir(parents=True, exist_ok=True)
    (node.root / "run/laneway/simulated-faults.yaml").write_text("gpus: [{gpu: 1, mig: true}]")
    node.start("--port", "0")

    def reported() -> dict[str, Any] | None:
        status = dict(cluster.gpu_node(node.name).get("status") or {})
        gpus = status.get("gpus") or []
        # The agent reads its GPUs and its Node apart.
        types = [each["type"] for each in status.get("conditions", ())]
        return status if gpus and not gpus[1]["healthy"] and "DoublyOffered" in types else None

    status = eventually("MIG mode and the other plugin are reported", reported)
    assert [gpu["healthy"] for gpu in status["gpus"]] == [True, False]
    assert status["gpus"][1]["healthReason"].startswith("MIG mode is on")
    conditions = {each["type"]: each for each in status["conditions"]}
    assert (conditions["DoublyOffered"]["status"], conditions["DoublyOffered"]["reason"]) == (
        "True",
        "OtherDevicePlugin",
    )
    assert "hands out GPUs of this node (nvidia.com/gpu: 2)" in conditions["DoublyOffered"]["message"]
    (node.root / "run/laneway/pod-requests.json").write_text(
        '{"requests": {"pods": "1", "nvidia.com/gpu": "1"}}'
    )

    def says(message: str) -> bool:
        status = cluster.gpu_node(node.name)["status"]
        return any(message in each["message"] for each in status["conditions"])

    eventually(
        "their pods count as well", lambda: says("(nvidia.com/gpu: 2, nvidia.com/gpu: 1 requested by pods)")
    )
    assert status["deviceStrategyReason"] == "simulated GPUs have no device"
    inventory = json.loads((node.root / "run/laneway/inventory.json").read_text())
    assert inventory["devices"]["runtime"] == "containerd://2.1.4"
    assert "1 requested by pods" in inventory["withheld_reason"]


def test_a_node_reports_its_gpus_and_sessions(make_published: MakeNode, cluster: Cluster) -> None:
    node = make_published(reserveMebibytes=100).start("--port", "0")
    eventually("it is published", lambda: cluster.gpu_node(node.name).get("status"))
    status = cluster.gpu_node(node.name)["status"]
    assert status["gpuCount"] == 2
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("Ready", "True", "AgentRuns"),
        ("GPUsHealthy", "True", "AllHealthy"),
    ]
    assert [(g["uuid"], g["allocatableBytes"]) for g in status["gpus"]] == [(g, 900 << 20) for g in node.gpus]

    process = node.container("digits-0", 50, job="digits", rank=0, attempt=1).await_socket().process()
    session = eventually("it is allocated", lambda: cluster.sessions(node.name).get("digits-0"))
    assert (session["state"], session["enforcement"], session["profiled"]) == ("Allocated", "None", False)
    assert (session["job"], session["sharePercent"], session["quotaBytes"]) == ("digits", 50, 450 << 20)
    process.hello()
    process.profile(50, 100)
    process.turn()

    def holding() -> dict[str, Any] | None:
        found = cluster.sessions(node.name)["digits-0"]
        return found if found["profiled"] and found["state"] == "Holding" else None

    session = eventually("it holds a turn", holding)
    assert session["enforcement"] == "Cooperative"
    assert (session["persistentBytes"], session["ephemeralBytes"]) == (50 << 20, 100 << 20)
    assert session["lane"] == 0
    (lane,) = cluster.gpu_node(node.name)["status"]["gpus"][0]["lanes"]
    assert lane["sessions"] == [session["key"]]

    process.send(
        "overrun", used_bytes=451 << 20, quota_bytes=450 << 20, message="the job needs more than its share"
    )
    eventually(
        "it says so", lambda: "451.0 MiB of 450.0 MiB" in cluster.sessions(node.name)["digits-0"]["message"]
    )
    process.end()
    eventually("it is lost", lambda: cluster.sessions(node.name)["digits-0"]["state"] == "Lost")


def test_a_session_beyond_its_quota_is_noted(make_published: MakeNode, cluster: Cluster) -> None:
    node = make_published().start("--port", "0")
    process = node.container("greedy", 10).await_socket().process()
    process.hello()
    process.do("write", word=11, value=101 << 20)
    wanted = "holds 101.0 MiB, more than its quota of 100.0 MiB"
    eventually(
        "it is noted", lambda: wanted in cluster.sessions(node.name).get("greedy", {}).get("message", "")
    )


def test_figures_are_written_at_intervals(make_published: MakeNode, cluster: Cluster) -> None:
    node = make_published().start("--port", "0")
    process = node.container("trains").await_socket().process()
    process.hello()
    process.profile(50, 100)

    def written() -> tuple[int, datetime] | None:
        turns = cluster.sessions(node.name).get("trains", {}).get("turns", 0)
        observed = cluster.gpu_node(node.name).get("status", {}).get("observedAt")
        return (turns, datetime.fromisoformat(observed)) if turns else None

    def take_turn() -> None:
        process.send("release", turn=process.turn(), iterations=1, gpu_seconds=0.0)

    take_turn()
    first, first_at = eventually("its first turn is written", written)
    for _ in range(10):
        take_turn()
    now, now_at = eventually(
        "more turns are written", lambda: (seen := written()) and seen[0] > first and seen
    )
    assert now > first
    assert (now_at - first_at).total_seconds() >= 1.9, "no sooner than statusIntervalSeconds"


def test_a_lease_that_was_deleted_or_changed_is_renewed_and_owned_by_the_node(
    make_published: MakeNode, cluster: Cluster
) -> None:
    node = make_published()
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}})
    node.start("--port", "0")

    def lease() -> dict[str, Any]:
        text = cluster.kubectl("get", "lease", lease_name(node.name), "--ignore-not-found", "-o", "json")
        return dict(json.loads(text)) if text else {}

    found = eventually("it is there", lease)
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert found["spec"]["leaseDurationSeconds"] == 40
    cluster.kubectl("annotate", "lease", lease_name(node.name), "someone=wrote")
    eventually("it is renewed", lambda: lease()["spec"]["renewTime"] > found["spec"]["renewTime"])
    cluster.kubectl("delete", "lease", lease_name(node.name))
    eventually(
        "it is created again",
        lambda: lease().get("metadata", {}).get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"],
    )


def test_the_gpu_node_is_owned_by_its_node_and_recreated_after_deletion(
    make_published: MakeNode, cluster: Cluster
) -> None:
    node = make_published()
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}})
    node.start("--port", "0")
    found = eventually("it is published", lambda: cluster.gpu_node(node.name))
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Node"
    eventually("its status is written", lambda: cluster.gpu_node(node.name).get("status"))
    managers = {entry["manager"] for entry in found["metadata"]["managedFields"]}
    assert managers == {"laneway-node"}
    cluster.kubectl("delete", "gpunode", node.name, "--wait=false")
    eventually(
        "it is written again",
        lambda: (
            cluster.gpu_node(node.name).get("metadata", {}).get("uid", found["metadata"]["uid"])
            != found["metadata"]["uid"]
        ),
    )


def test_turns_go_on_while_the_api_server_is_away(make_published: MakeNode) -> None:
    with LoopbackControlPlane() as plane:
        cluster = Cluster(plane)
        for path in sorted(Path("crds").glob("*.yaml")):
            cluster.apply(*yaml.safe_load_all(path.read_text()))
        plane.wait_for_crds()
        node = make_published(plane.kubeconfig).start("--port", "0")
        eventually("it is published", lambda: cluster.gpu_node(node.name).get("status"))
        plane.kill("kube-apiserver")
        process = node.container("a").await_socket().process()
        process.hello()
        assert process.turn() == 1
        eventually("the failure is logged", lambda: "cannot write GPUNode" in node.log)
        plane.start("kube-apiserver")
        eventually("it is written again", lambda: "a" in cluster.sessions(node.name), 60)


def test_a_server_that_refuses_is_quoted_in_the_log(make_published: MakeNode, cluster: Cluster) -> None:
    stranger = cluster.plane.kubeconfig_for("stranger", "nobody")
    node = make_published(stranger).start("--port", "0")
    eventually("it is quoted", lambda: 'User "stranger" cannot' in node.log)
    eventually("an agent whose writes are refused still gives turns", node.is_healthy)


def node_token_kubeconfig(cluster: Cluster, folder: Path, node: str, namespace: str, account: str) -> Path:
    """Return a kubeconfig like that of a DaemonSet pod on the node: its token is bound to the pod and names the node."""
    pod = f"agent-on-{node}"
    cluster.apply(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod, "namespace": namespace},
            "spec": {
                "serviceAccountName": account,
                "nodeName": node,
                "containers": [{"name": "agent", "image": "agent"}],
            },
        },
    )
    token = cluster.kubectl(
        "create", "token", account, "-n", namespace, "--bound-object-kind", "Pod", "--bound-object-name", pod
    ).strip()
    config = yaml.safe_load(cluster.plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = folder / f"{node}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


NOT_ITS_OWN = "a node may write its own GPUNode only"


def is_refused(cluster: Cluster, kubeconfig: Path, name: str) -> bool:
    """Whether the policy refuses a GPUNode of that name (a new policy takes effect after a moment)."""
    body = yaml.safe_dump(
        {"apiVersion": "laneway.dev/v1alpha1", "kind": "GPUNode", "metadata": {"name": name}, "spec": {}}
    )
    command = [
        str(cluster.plane.kubectl),
        "--kubeconfig",
        str(kubeconfig),
        "create",
        "--dry-run=server",
        "-f",
        "-",
    ]
    done = subprocess.run(command, input=body, capture_output=True, text=True, check=False)
    return done.returncode != 0 and NOT_ITS_OWN in done.stderr


def test_with_the_charts_rights_a_node_writes_its_own_object_and_no_other(
    make_published: MakeNode, cluster: Cluster, tmp_path: Path
) -> None:
    from hack.cluster.build import built

    namespace = f"laneway-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", namespace)
    chart = [
        str(built("helm")),
        "template",
        "laneway",
        "charts/laneway",
        "--namespace",
        namespace,
        "--kube-version",
        "1.36.0",
    ]
    rendered = subprocess.run(
        [*chart, "--show-only", "templates/node-rbac.yaml"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "HELM_CACHE_HOME": str(tmp_path)},
    ).stdout
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=rendered)
    account = next(o for o in yaml.safe_load_all(rendered) if o and o["kind"] == "ServiceAccount")[
        "metadata"
    ]["name"]

    node = make_published()
    kubeconfig = node_token_kubeconfig(cluster, tmp_path, node.name, namespace, account)
    node.environment = {"KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": namespace}
    node.start("--port", "0")
    eventually("its own is written", lambda: cluster.gpu_node(node.name).get("status"))
    eventually(
        "its Lease is renewed",
        lambda: lease_name(node.name) in cluster.kubectl("get", "leases", "-n", namespace),
    )

    other = make_published()
    eventually("the policy is in force", lambda: is_refused(cluster, kubeconfig, other.name))
    other.environment = {"KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": namespace}
    other.start("--port", "0")
    eventually("another node's is refused", lambda: NOT_ITS_OWN in other.log)
    assert cluster.gpu_node(other.name) == {}


class MovedClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = time.time()

    def monotonic(self) -> float:
        return self.seconds

    def realtime(self) -> float:
        return self.seconds


def test_a_gpu_node_without_gpus_is_repaired_and_otherwise_left_alone(cluster: Cluster) -> None:
    name = f"n-{uuid.uuid4().hex[:8]}"
    api = config.new_client_from_config(str(cluster.plane.kubeconfig))
    writer, clock = KubernetesWriter(name, api), MovedClock()
    publisher = NoGPUsPublisher(writer, NodeLease(name, "default", writer, clock), clock)

    def published() -> dict[str, Any]:
        clock.seconds += REPAIR_SECONDS
        publisher.publish("no driver")
        return cluster.gpu_node(name)

    first = published()
    (ready,) = first["status"]["conditions"]
    assert (ready["type"], ready["status"], ready["message"]) == ("Ready", "False", "no driver")
    assert published()["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    gpu = {"uuid": "GPU-old", "index": 0, "model": "A100", "memoryBytes": 1, "allocatableBytes": 1}
    gpu |= {"allocatablePercent": 100, "healthy": True}
    backup = json.dumps(
        {"status": {"gpuCount": 1, "gpus": [gpu], "conditions": [{**ready, "status": "True"}]}}
    )
    cluster.kubectl("patch", "gpunode", name, "--subresource=status", "--type=merge", "-p", backup)
    assert cluster.gpu_node(name)["status"]["gpuCount"] == 1
    assert published()["status"] == first["status"]
    cluster.kubectl("delete", "gpunode", name)
    assert published()["status"] == first["status"]


def test_a_status_replaces_gpus_that_somebody_else_wrote(cluster: Cluster) -> None:
    name = f"n-{uuid.uuid4().hex[:8]}"
    writer = KubernetesWriter(name, config.new_client_from_config(str(cluster.plane.kubeconfig)))
    gpu = {"uuid": "GPU-0", "index": 0, "model": "A100", "memoryBytes": 1, "allocatableBytes": 1}
    gpu |= {"allocatablePercent": 100, "healthy": True}
    writer.apply_object()
    writer.apply_status({"gpuCount": 1, "gpus": [gpu]})
    backup = json.dumps({"status": {"gpus": [{**gpu, "uuid": "GPU-old"}, gpu]}})
    cluster.kubectl("patch", "gpunode", name, "--subresource=status", "--type=merge", "-p", backup)
    writer.apply_status({"gpuCount": 1, "gpus": [{**gpu, "memoryBytes": 2}]})
    (only,) = cluster.gpu_node(name)["status"]["gpus"]
    assert (only["uuid"], only["memoryBytes"]) == ("GPU-0", 2)
