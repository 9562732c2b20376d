"""kill -9 of parts of Laneway on every node, and what else befalls a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laneway.api.names import CONTAINERS_FOLDER

from hack.cluster.commands import run
from hack.cluster.probes import wait_until
from hack.cluster.progress import ClusterError
from hack.demo.install import SYSTEM_NAMESPACE, laneway_pods
from tests.e2e.conftest import Laneway

_RESTARTED_SECONDS = 360
"""A kubelet lets a container that was killed often wait for up to five minutes."""


def node_pods(laneway: Laneway) -> list[dict[str, Any]]:
    """Laneway's pod of each node."""
    return laneway_pods(laneway.installation.target, "node")


def kill(laneway: Laneway, *containers: str) -> None:
    """kill -9 of the first process of containers of Laneway's pod on every node, from outside."""
    for pod in node_pods(laneway):
        for container in containers:
            _killer(laneway, pod, container)()


def operator_killer(laneway: Laneway) -> Callable[[], None]:
    """Returns a kill -9 of the operator's first process, from outside; the kubelet starts its container again.

    It is prepared here, so that it falls at once where a test needs it at a certain moment.
    """
    (pod,) = laneway_pods(laneway.installation.target, "operator")
    return _killer(laneway, pod, "operator")


def delete_operator(laneway: Laneway) -> None:
    """Deletes the operator's pod without any grace; its Deployment creates another one."""
    for pod in laneway_pods(laneway.installation.target, "operator"):
        command = ("delete", "pod", pod["metadata"]["name"], "--namespace", SYSTEM_NAMESPACE)
        laneway.kubectl.run(*command, "--grace-period=0", "--force")


def _killer(laneway: Laneway, pod: dict[str, Any], container: str) -> Callable[[], None]:
    statuses = {status["name"]: status for status in pod["status"]["containerStatuses"]}
    _, _, identifier = statuses[container]["containerID"].partition("://")
    ctr = laneway.cluster.node(pod["spec"]["nodeName"]).ctr()

    def kill_now() -> None:
        run([*ctr, "task", "kill", "--signal", "SIGKILL", identifier])

    return kill_now


def wait_until_restarted(laneway: Laneway, container: str, before: dict[str, int]) -> None:
    """Wait until a container of every node's pod has started again, since `restart_counts` said so, and all are ready."""

    def restarted() -> bool:
        counts = restart_counts(laneway, container)
        return all(counts.get(pod, 0) > count for pod, count in before.items()) and all_ready(laneway)

    wait_until(restarted, f"{container} started again on every node", _RESTARTED_SECONDS)


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


def registrations(laneway: Laneway) -> dict[str, int]:
    """Waits until every node's plugin is ready; returns how often each has registered, by its pod."""
    found: dict[str, int] = {}

    def all_answer() -> bool:
        found.clear()
        found.update(_registrations(laneway))
        return len(found) == len(laneway.cluster.nodes)

    wait_until(all_answer, "every plugin is ready", 150)
    return found


def _registrations(laneway: Laneway) -> dict[str, int]:
    """Returns the registrations of the plugins that are ready."""
    found = {}
    for pod in node_pods(laneway):
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods/{name}:9465/proxy/readyz"
        try:
            found[name] = int(laneway.api.get(path)["registrations"])
        except ClusterError:
            continue  # it is not ready, or its kubelet does not answer yet
    return found


def wait_until_registered_again(laneway: Laneway, before: dict[str, int]) -> None:
    """Waits until every plugin has registered since `registrations` said so, and is ready.

    The Node still offers what it did before its kubelet ended, so it does not tell whether a worker would be refused.
    """

    def registered() -> bool:
        now = _registrations(laneway)
        return all(now.get(pod, 0) > count for pod, count in before.items())

    wait_until(registered, "every plugin has registered with its new kubelet", 150)


def wipe_sockets(laneway: Laneway) -> None:
    """Remove the plugin's socket, and the folders of all containers with the agent's sockets in them."""
    for node in laneway.cluster.nodes:
        script = f"rm -rf /var/lib/kubelet/device-plugins/laneway.sock {CONTAINERS_FOLDER}/*"
        node.run(["sh", "-c", script])
