"""What pods and kubelets find on the embedded cluster's nodes."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.cluster import embedded
from hack.cluster.dns import resolve
from hack.cluster.embedded import RunningCluster
from hack.cluster.kubectl import Kubectl
from hack.cluster.node import NODE_COMPONENTS
from hack.cluster.probes import wait_until
from hack.cluster.progress import ClusterError

BUSYBOX = "localhost/laneway/test-busybox:1"
KUBECTL = "localhost/laneway/test-kubectl:1"


def _pod(name: str, node: str, command: list[str], **spec: object) -> dict[str, Any]:
    volumes: dict[str, dict[str, Any]] = {
        "data": {"emptyDir": {}},
        "own": {"hostPath": {"path": "/var/lib/laneway", "type": "DirectoryOrCreate"}},
        "shared": {"hostPath": {"path": "/var/lib/laneway-shared", "type": "Directory"}},
    }
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": volume, "mountPath": f"/{volume}"} for volume in volumes],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "gang"}},
        "spec": {
            "nodeName": node,
            "hostname": name,
            "subdomain": "gang",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": volume, **source} for volume, source in volumes.items()],
            **spec,
        },
    }


@pytest.fixture(scope="module")
def gang(two_nodes: RunningCluster) -> Kubectl:
    """A web server on each node, w1 and w2, behind a headless Service `gang` and a Service `web`."""
    serve = 'echo "I am $HOSTNAME" > /data/index.html && echo started && exec httpd -f -p 8080 -h /data'
    selector = {"app": "gang"}
    services: list[dict[str, Any]] = [
        {"metadata": {"name": "gang"}, "spec": {"clusterIP": "None", "selector": selector}},
        {
            "metadata": {"name": "web"},
            "spec": {"selector": selector, "ports": [{"port": 80, "targetPort": 8080}]},
        },
    ]
    documents: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Service", **service} for service in services
    ]
    for index, node in enumerate(two_nodes.cluster.nodes, start=1):
        documents.append(_pod(f"w{index}", node.name, ["sh", "-c", serve]))
    kubectl = two_nodes.kubectl
    # The controller makes a namespace's service account a moment after the namespace.
    kubectl.run("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    kubectl.run("apply", "--filename", "-", stdin=yaml.safe_dump_all(documents))
    kubectl.run("wait", "--for=condition=Ready", "pod/w1", "pod/w2", "--timeout=60s")
    return kubectl


def _in_pod(kubectl: Kubectl, pod: str, command: str) -> str:
    return kubectl.run("exec", pod, "--", "sh", "-c", command)


def _wait_for_answers(kubectl: Kubectl, pod: str, url: str, expected: set[str]) -> None:
    """Wait until requests of a pod to a Service reach all of its pods: endpoints are published after their pods are ready."""
    fetch = f"for i in 1 2 3 4 5 6 7 8; do wget -q -O - {url}; done"

    def answered() -> bool:
        try:
            return set(_in_pod(kubectl, pod, fetch).splitlines(keepends=True)) == expected
        except ClusterError:
            return False

    wait_until(answered, f"{url} answering {pod} with {sorted(expected)}", timeout_seconds=90)


def test_a_second_up_starts_nothing_anew(two_nodes: RunningCluster) -> None:
    def pids() -> dict[str, int | None]:
        names = [*embedded.CONTROL_PLANE_COMPONENTS]
        names += [f"{node.name}/{each}" for node in two_nodes.cluster.nodes for each in NODE_COMPONENTS]
        return {name: two_nodes.component(name).pid() for name in names}

    before = pids()
    assert None not in before.values()
    embedded.bring_up(two_nodes.cluster.name, 2)
    assert pids() == before


def test_a_cluster_does_not_shrink(two_nodes: RunningCluster) -> None:
    with pytest.raises(ClusterError, match="cannot shrink to 1: write --nodes 2"):
        embedded.bring_up(two_nodes.cluster.name, 1)


def test_workers_find_one_another_by_name_across_nodes(gang: Kubectl) -> None:
    _wait_for_answers(gang, "w1", "http://w2.gang:8080/", {"I am w2\n"})
    _wait_for_answers(gang, "w2", "http://w1.gang:8080/", {"I am w1\n"})


def test_a_service_is_reached_by_its_address_from_pods_and_from_this_machine(
    gang: Kubectl, two_nodes: RunningCluster
) -> None:
    answers = {"I am w1\n", "I am w2\n"}
    for pod in ("w1", "w2"):
        _wait_for_answers(gang, pod, "http://web/", answers)
    address = resolve("web.default.svc.cluster.local", two_nodes.cluster.address)
    assert _get(f"http://{address}/") in answers


def test_this_machine_reaches_pods_by_their_own_addresses(gang: Kubectl) -> None:
    for pod in ("w1", "w2"):
        address = gang.get("pod", pod)["status"]["podIP"]
        assert _get(f"http://{address}:8080/") == f"I am {pod}\n"


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        content: bytes = answer.read()
    return content.decode()


def test_logs_exec_and_proxy_work(gang: Kubectl) -> None:
    assert gang.run("logs", "w1") == "started\n"
    assert _in_pod(gang, "w1", "echo $HOSTNAME") == "w1\n"
    assert gang.run("get", "--raw", "/api/v1/namespaces/default/pods/w2:8080/proxy/") == "I am w2\n"


def test_a_pod_reaches_the_api_with_its_service_account_and_has_no_other_rights(
    gang: Kubectl, two_nodes: RunningCluster
) -> None:
    node = two_nodes.cluster.nodes[1].name
    for name, command in (("who", ["auth", "whoami", "-o", "json"]), ("secrets", ["get", "secrets"])):
        pod = _pod(name, node, [], restartPolicy="Never")
        pod["spec"]["containers"] = [
            {"name": "main", "image": KUBECTL, "imagePullPolicy": "IfNotPresent", "args": command}
        ]
        gang.run("apply", "--filename", "-", stdin=yaml.safe_dump(pod))
    gang.run("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/who", "--timeout=60s")
    user = json.loads(gang.run("logs", "who"))["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:default:default"
    assert user["extra"]["authentication.kubernetes.io/node-name"] == [node], "the token is bound to its node"
    gang.run("wait", "--for=jsonpath={.status.phase}=Failed", "pod/secrets", "--timeout=60s")
    assert "forbidden" in gang.run("logs", "secrets")


def test_laneways_folders_are_a_nodes_own_and_the_shared_folder_is_everybodys(gang: Kubectl) -> None:
    _in_pod(gang, "w1", "touch /own/of-w1 /shared/of-w1")
    _in_pod(gang, "w2", "touch /own/of-w2 && cat /shared/of-w1")
    with pytest.raises(ClusterError, match="No such file"):
        _in_pod(gang, "w2", "cat /own/of-w1")


def test_a_kubelet_acts_on_its_own_node_only(two_nodes: RunningCluster) -> None:
    first, second = two_nodes.cluster.nodes
    kubelet = Kubectl(two_nodes.programs["kubectl"], first.folder / "kubelet.kubeconfig")
    assert kubelet.succeeds("get", "node", first.name)
    assert not kubelet.succeeds("label", "node", second.name, "mine=yes")
    assert not kubelet.succeeds("label", "node", first.name, "node-role.kubernetes.io/control-plane=")


def test_a_kubelet_answers_nobody_without_a_credential(two_nodes: RunningCluster) -> None:
    node = two_nodes.cluster.nodes[0]
    status = two_nodes.node(node.name).run(
        ["curl", "--insecure", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", f"https://{node.address}:10250/pods"]
    )  # fmt: skip
    assert status == "401"


def test_the_machines_kernel_settings_stay_as_they_are(two_nodes: RunningCluster) -> None:
    """The kubelet believes to have set them; the real ones are hidden from it."""
    node = two_nodes.node(two_nodes.cluster.nodes[0].name)
    assert node.run(["cat", "/proc/sys/kernel/panic"]) == "10\n"
    node.run(["sh", "-c", "echo 11 > /proc/sys/kernel/panic"])
    assert Path("/proc/sys/kernel/panic").read_text() != "11\n"
    node.run(["sh", "-c", "echo 10 > /proc/sys/kernel/panic"])


def test_pods_outlive_a_crash_of_kubelet_and_containerd(gang: Kubectl, two_nodes: RunningCluster) -> None:
    def container() -> tuple[str, int]:
        status = gang.get("pod", "w1")["status"]["containerStatuses"][0]
        return status["containerID"], status["restartCount"]

    before = container()
    name = two_nodes.cluster.nodes[0].name
    old = two_nodes.component(f"{name}/kubelet").pid()
    two_nodes.component(f"{name}/containerd").kill()
    two_nodes.start_component(f"{name}/containerd")
    two_nodes.restart_kubelet(name)
    assert two_nodes.component(f"{name}/kubelet").pid() not in (None, old)
    assert _in_pod(gang, "w1", "wget -q -O - http://localhost:8080/") == "I am w1\n"
    assert container() == before


def test_a_node_that_is_stopped_and_started_comes_back_with_its_disk(
    gang: Kubectl, two_nodes: RunningCluster
) -> None:
    name = two_nodes.cluster.nodes[1].name
    node = two_nodes.node(name)
    node.run(["touch", "/run/volatile", "/var/lib/laneway/kept"])
    node.stop()
    wait_until(lambda: name not in gang.ready_nodes(), f"{name} being seen as lost", timeout_seconds=90)
    with pytest.raises(ClusterError, match="start it with"):
        node.run(["true"])
    two_nodes.start_node(name)
    assert node.run(["ls", "/var/lib/laneway"]).split().count("kept") == 1
    assert "volatile" not in node.run(["ls", "/run"]).split()
    gang.run("wait", "--for=condition=Ready", "pod/w2", "--timeout=90s")
    _wait_for_answers(gang, "w1", "http://w2.gang:8080/", {"I am w2\n"})
