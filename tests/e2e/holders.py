"""The holders of a node's GPUs by each record of them: the kubelet's, the agent's sessions, the GPUNode, the process.

The kubelet's PodResources are asked at its own socket, which lies on the node's disk; a process is looked at through /proc,
because all nodes are on this machine.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
from laneway.api.device_ids import gpu_of
from laneway.api.names import CONTAINER_LANEWAY_FOLDER, GPU_PERCENT, RECORD_NAME
from laneway.api.pod_cgroup import pod_of
from laneway.device_plugin.proto import podresources_pb2 as resources

from hack.cluster.kubectl import Kubectl
from hack.demo.install import SYSTEM_NAMESPACE

PodKey = tuple[str, str]
"""Namespace and name."""

CONNECTED = ("Waiting", "Holding", "Paused")


class KubeletRecords:
    """PodResources of one node."""

    def __init__(self, node: str, kubelet_folder: Path) -> None:
        self.node = node
        # By a descriptor, because the path of a socket has at most 107 characters.
        self._folder = os.open(kubelet_folder / "pod-resources", os.O_PATH | os.O_DIRECTORY)
        self._channel = grpc.insecure_channel(f"unix:///proc/self/fd/{self._folder}/kubelet.sock")
        self._list = self._channel.unary_unary(
            "/v1.PodResourcesLister/List",
            resources.ListPodResourcesRequest.SerializeToString,
            resources.ListPodResourcesResponse.FromString,
        )

    def ids(self) -> list[tuple[PodKey, tuple[str, ...]]]:
        """The ids of every container that holds any.

        Raises:
            grpc.RpcError: the kubelet does not answer.
        """
        answer = self._list(resources.ListPodResourcesRequest(), timeout=5)
        found = []
        for pod in answer.pod_resources:
            for container in pod.containers:
                held = [
                    one
                    for devices in container.devices
                    if devices.resource_name == GPU_PERCENT
                    for one in devices.device_ids
                ]
                if held:
                    found.append(((pod.namespace, pod.name), tuple(sorted(held))))
        return found

    def close(self) -> None:
        self._channel.close()
        os.close(self._folder)


def agent_sessions(address: str) -> list[dict[str, Any]]:
    """Returns the sessions of the agent at an address, without those that ended and without processes.

    Raises:
        OSError: it does not answer.
    """
    with urllib.request.urlopen(f"http://{address}:9464/sessions", timeout=5) as answer:
        return _living(json.load(answer))


def agent_processes(kubectl: Kubectl, pod: str) -> list[dict[str, Any]]:
    """Returns the sessions of the agent in a pod with their processes, which it shows only to its own pod.

    Raises:
        ClusterError: it does not answer.
    """
    code = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9464/sessions', timeout=30).read().decode())"
    place = ("--namespace", SYSTEM_NAMESPACE, "--container", "node-agent")
    return _living(json.loads(kubectl.run("exec", pod, *place, "--", "/opt/venv/bin/python", "-c", code)))


def _living(sessions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [session for session in sessions if session["state"] != "Ended"]


def published_sessions(gpu_node: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """GPU and session for each session of a GPUNode that has not ended."""
    for gpu in gpu_node.get("status", {}).get("gpus", ()):
        for session in gpu.get("sessions", ()):
            if session["state"] != "Ended":
                yield gpu, session


def percents(held: Iterable[tuple[PodKey, tuple[str, ...]]]) -> Counter[str]:
    """Percent of each GPU that is held."""
    return Counter(gpu_of(one) for _, ids in held for one in ids)


def given_twice(held: Iterable[tuple[PodKey, tuple[str, ...]]]) -> list[str]:
    """Ids that more than one container holds."""
    counted = Counter(one for _, ids in held for one in ids)
    return sorted(one for one, count in counted.items() if count > 1)


def pod_of_process(pid: int) -> str | None:
    """The uid of the pod that a process is of, by its cgroup."""
    return pod_of(Path(f"/proc/{pid}/cgroup").read_text())


def environment_of(pid: int) -> dict[str, str]:
    """The environment that a process was started with."""
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def record_seen_by(pid: int) -> dict[str, Any]:
    """What the device plugin wrote about a process's container, as that process sees it in its own file system."""
    path = Path(f"/proc/{pid}/root") / CONTAINER_LANEWAY_FOLDER.strip("/") / RECORD_NAME
    record: dict[str, Any] = json.loads(path.read_bytes())
    return record
