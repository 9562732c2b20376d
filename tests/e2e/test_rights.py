"""What a node may write: its own GPUNode, and nothing else. With a token like that of a real node's pod."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

import pytest
from laneway.api import names

from hack.demo.install import SYSTEM_NAMESPACE, laneway_pods
from tests.e2e.conftest import Laneway

GPU_NODES = f"/apis/{names.API_VERSION}/gpunodes"


class NodeUser:
    """Speaks to the API server with a token that is bound to a node's pod, as the one in that pod is."""

    def __init__(self, laneway: Laneway, pod: dict[str, Any]) -> None:
        self.node: str = pod["spec"]["nodeName"]
        self._server = laneway.api.server
        self._token = laneway.kubectl.run(
            *("create", "token", pod["spec"]["serviceAccountName"], "--namespace", SYSTEM_NAMESPACE),
            *("--bound-object-kind", "Pod", "--bound-object-name", pod["metadata"]["name"]),
            *("--bound-object-uid", pod["metadata"]["uid"]),
        ).strip()
        authority = laneway.kubectl.get("configmap", "kube-root-ca.crt", "--namespace", SYSTEM_NAMESPACE)
        self._tls = ssl.create_default_context(cadata=authority["data"]["ca.crt"])

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Send a request; return the status and the answer."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            f"{self._server}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": kind},
        )
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def may(self, verb: str, group: str, resource: str, subresource: str = "") -> bool:
        """Ask the API server what this user may do, on objects of any name in any namespace."""
        wanted = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": wanted},
        }
        status, answer = self.send("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        assert status == 201, answer
        allowed: bool = answer["status"]["allowed"]
        return allowed


@pytest.fixture(scope="module")
def users(laneway: Laneway) -> tuple[NodeUser, NodeUser]:
    first, second = (NodeUser(laneway, pod) for pod in laneway_pods(laneway.installation.target, "node"))
    return first, second


def test_a_node_writes_its_own_gpunode_and_no_other(
    laneway: Laneway, users: tuple[NodeUser, NodeUser]
) -> None:
    first, second = users
    labels = {"metadata": {"labels": {"written-by": "test"}}}

    status, answer = first.send("PATCH", f"{GPU_NODES}/{first.node}", labels)
    assert status == 200, answer

    for path, body in (
        (f"{GPU_NODES}/{second.node}", labels),
        (f"{GPU_NODES}/{second.node}/status", {"status": {"gpuCount": 99}}),
    ):
        status, answer = first.send("PATCH", path, body)
        assert status == 403
        assert (
            f"a node may write its own GPUNode only: this token is of node {first.node}" in answer["message"]
        )
    stranger = {
        "apiVersion": names.API_VERSION,
        "kind": "GPUNode",
        "metadata": {"name": "stranger"},
        "spec": {},
    }
    status, answer = first.send("POST", GPU_NODES, stranger)
    assert status == 403
    assert laneway.kubectl.get("gpunode", second.node)["status"]["gpuCount"] == 4


@pytest.mark.parametrize(
    ("verb", "group", "resource", "subresource"),
    [
        ("create", "", "pods", ""),
        ("delete", "", "pods", ""),
        ("patch", "", "pods", ""),
        ("patch", "", "pods", "status"),
        ("create", "", "pods", "exec"),
        ("patch", "", "nodes", ""),
        ("patch", "", "nodes", "status"),
        ("create", names.GROUP, "trainingjobs", ""),
        ("patch", names.GROUP, "trainingjobs", ""),
        ("patch", names.GROUP, "trainingjobs", "status"),
        ("delete", names.GROUP, "gpunodes", ""),
        ("get", "", "secrets", ""),
        ("list", "", "secrets", ""),
        ("update", "coordination.k8s.io", "leases", ""),
    ],
)
def test_a_node_may_not(
    users: tuple[NodeUser, NodeUser], verb: str, group: str, resource: str, subresource: str
) -> None:
    assert not users[0].may(verb, group, resource, subresource)


def test_a_node_may_read_the_pods_that_it_serves(users: tuple[NodeUser, NodeUser]) -> None:
    """The same question as above with another answer: it is not refused for another reason."""
    assert users[0].may("list", "", "pods")
