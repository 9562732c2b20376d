"""What a node may write: its own GPUNode, and nothing else. With the real token of a real node pod."""

from __future__ import annotations

import json
import subprocess

from hack.demo.install import SYSTEM_NAMESPACE, system_pods
from tests.e2e.conftest import Laneway


class NodeUser:
    """kubectl with the token that the node's own pod has."""

    def __init__(self, laneway: Laneway, pod: str) -> None:
        raw = laneway.kubectl.get("pod", pod, "--namespace", SYSTEM_NAMESPACE)
        self.node: str = raw["spec"]["nodeName"]
        account: str = raw["spec"]["serviceAccountName"]
        token = laneway.kubectl.run(
            *("create", "token", account, "--namespace", SYSTEM_NAMESPACE),
            *("--bound-object-kind", "Pod", "--bound-object-name", pod),
            *("--bound-object-uid", raw["metadata"]["uid"]),
        )
        authority = laneway.kubectl.get("configmap", "kube-root-ca.crt", "--namespace", SYSTEM_NAMESPACE)
        self._file = laneway.cluster.cluster.folder / f"token-test-{self.node}.json"
        self._file.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [
                        {
                            "name": "c",
                            "cluster": {
                                "server": laneway.api.server,
                                "certificate-authority-data": _base64(authority["data"]["ca.crt"]),
                            },
                        }
                    ],
                    "users": [{"name": "u", "user": {"token": token.strip()}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        self._program = laneway.kubectl.program

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self._program), "--kubeconfig", str(self._file), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def _base64(text: str) -> str:
    import base64

    return base64.b64encode(text.encode()).decode()


PATCH = ("--type=merge", "--patch", '{"metadata": {"labels": {"written-by": "test"}}}')
STATUS_PATCH = ("--subresource=status", "--type=merge", "--patch", '{"status": {"gpuCount": 99}}')


def test_a_node_writes_its_own_gpunode_and_no_other(laneway: Laneway) -> None:
    first, second = (NodeUser(laneway, pod) for pod in system_pods(laneway.installation.target, "node"))

    own = first.run("patch", "gpunode", first.node, *PATCH)
    assert own.returncode == 0, own.stderr
    for what in (PATCH, STATUS_PATCH):
        other = first.run("patch", "gpunode", second.node, *what)
        assert other.returncode != 0
        assert f"a node may write its own GPUNode only: this token is of node {first.node}" in other.stderr
    assert laneway.kubectl.get("gpunode", second.node)["status"]["gpuCount"] == 4


def test_a_node_writes_nothing_else(laneway: Laneway) -> None:
    user = NodeUser(laneway, system_pods(laneway.installation.target, "node")[0])

    for verb, resource in (
        ("create", "pods"),
        ("delete", "pods"),
        ("patch", "nodes"),
        ("create", "trainingjobs.laneway.dev"),
        ("patch", "trainingjobs.laneway.dev"),
        ("patch", "trainingjobs.laneway.dev/status"),
        ("delete", "gpunodes.laneway.dev"),
        ("get", "secrets"),
        ("list", "secrets"),
        ("create", "pods/exec"),
        ("update", "leases.coordination.k8s.io"),
    ):
        answer = user.run("auth", "can-i", verb, resource, "--all-namespaces")
        assert answer.stdout.strip() == "no", f"a node may {verb} {resource}"
