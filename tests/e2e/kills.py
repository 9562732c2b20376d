"""kill -9 of parts of Laneway on every node, and what else befalls a node."""

from __future__ import annotations

from typing import Any

from laneway.api.names import CONTAINERS_FOLDER

from hack.cluster.commands import run
from hack.cluster.probes import wait_until
from hack.demo.install import SYSTEM_NAMESPACE, system_pods
from tests.e2e.conftest import Laneway


def node_pods(laneway: Laneway) -> list[dict[str, Any]]:
    """Laneway's pod of each node."""
    names = system_pods(laneway.installation.target, "node")
    return [laneway.kubectl.get("pod", name, "--namespace", SYSTEM_NAMESPACE) for name in names]


def kill(laneway: Laneway, *containers: str) -> None:
    """kill -9 of the first process of containers of Laneway's pod on every node, from outside."""
    for pod in node_pods(laneway):
        for container in containers:
            _kill(laneway, pod, container)


def kill_operator(laneway: Laneway) -> None:
    """kill -9 of the operator's first process, from outside; the kubelet starts its container again."""
    for name in system_pods(laneway.installation.target, "operator"):
        _kill(laneway, laneway.kubectl.get("pod", name, "--namespace", SYSTEM_NAMESPACE), "operator")


def _kill(laneway: Laneway, pod: dict[str, Any], container: str) -> None:
    statuses = {status["name"]: status for status in pod["status"]["containerStatuses"]}
    _, _, identifier = statuses[container]["containerID"].partition("://")
    ctr = laneway.cluster.node(pod["spec"]["nodeName"]).ctr()
    run([*ctr, "task", "kill", "--signal", "SIGKILL", identifier])


def wait_until_restarted(laneway: Laneway, container: str, before: dict[str, int]) -> None:
    """Wait until a container of every node's pod has started again, since `restart_counts` said so, and all are ready."""

    def restarted() -> bool:
        counts = restart_counts(laneway, container)
        return all(counts.get(pod, 0) > count for pod, count in before.items()) and all_ready(laneway)

    wait_until(restarted, f"{container} started again on every node", 150)


def restart_counts(laneway: Laneway, container: str) -> dict[str, int]:
    """How often a container of each node's pod was started again."""
    return {
        pod["metadata"]["name"]: status["restartCount"]
        for pod in node_pods(laneway)
        for status in pod["status"]["containerStatuses"]
        if status["name"] == container
    }


def all_ready(laneway: Laneway) -> bool:
    """Whether both containers of every node's pod are ready."""
    return all(status["ready"] for pod in node_pods(laneway) for status in pod["status"]["containerStatuses"])


def restart_kubelets(laneway: Laneway) -> None:
    """kill -9 of every kubelet, and a new one."""
    for node in laneway.cluster.nodes:
        laneway.cluster.restart_kubelet(node.plan.name)


def wipe_sockets(laneway: Laneway) -> None:
    """Remove the plugin's socket, and the folders of all containers with the agent's sockets in them."""
    for node in laneway.cluster.nodes:
        script = f"rm -rf /var/lib/kubelet/device-plugins/laneway.sock {CONTAINERS_FOLDER}/*"
        node.run(["sh", "-c", script])
