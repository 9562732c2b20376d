"""The loopback control plane: real TLS and RBAC, and an API server that can crash."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from hack.cluster.control_plane import LoopbackControlPlane
from hack.cluster.kubectl import Kubectl
from hack.cluster.probes import answers_ok, client_context
from hack.cluster.progress import ClusterError
from tests.support.rights import until_allowed


@pytest.fixture(scope="module")
def control_plane() -> Iterator[LoopbackControlPlane]:
    with LoopbackControlPlane() as started:
        yield started


def test_data_survives_a_crash_of_the_api_server_and_of_etcd(control_plane: LoopbackControlPlane) -> None:
    kubectl = Kubectl(control_plane.kubectl, control_plane.kubeconfig)
    kubectl.run("create", "configmap", "kept", "--from-literal", "key=value")
    for component in ("kube-apiserver", "etcd"):
        control_plane.kill(component)
        assert not kubectl.succeeds("get", "configmap", "kept", "--request-timeout", "2s")
        control_plane.start(component)
        assert kubectl.get("configmap", "kept")["data"] == {"key": "value"}


def test_a_user_has_only_the_rights_that_rbac_gives(control_plane: LoopbackControlPlane) -> None:
    admin = Kubectl(control_plane.kubectl, control_plane.kubeconfig)
    user = Kubectl(control_plane.kubectl, control_plane.kubeconfig_for("reader", "readers"))
    assert not user.succeeds("get", "namespaces")
    admin.run("create", "clusterrole", "reader", "--verb", "list", "--resource", "namespaces")
    admin.run("create", "clusterrolebinding", "reader", "--clusterrole", "reader", "--group", "readers")
    until_allowed(control_plane, "reader", "list namespaces", group="readers")
    assert user.get("namespaces")["items"]
    assert not user.succeeds("create", "namespace", "not-mine")


def test_nobody_reads_without_a_credential(control_plane: LoopbackControlPlane) -> None:
    anonymous = subprocess.run(
        ["curl", "--silent", "--cacert", control_plane.authority, "--write-out", "%{http_code}", "--output", "/dev/null",
         f"{control_plane.url}/readyz"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert anonymous.stdout == "401"


def test_etcd_refuses_the_credentials_of_kubernetes(control_plane: LoopbackControlPlane) -> None:
    files, endpoints = control_plane.files, control_plane.endpoints
    own = client_context(files.etcd_authority.certificate, files.etcd_client())
    foreign = client_context(files.etcd_authority.certificate, files.admin())
    assert answers_ok(endpoints.address, endpoints.etcd_client_port, "/health", own)
    assert not answers_ok(endpoints.address, endpoints.etcd_client_port, "/health", foreign)


def test_a_wrong_component_is_named(control_plane: LoopbackControlPlane) -> None:
    with pytest.raises(ClusterError, match="write one of etcd, kube-apiserver"):
        control_plane.kill("kubelet")


def test_with_controllers_namespaces_get_their_service_account_and_can_be_deleted() -> None:
    with LoopbackControlPlane(controllers=True) as started:
        kubectl = Kubectl(started.kubectl, started.kubeconfig)
        kubectl.run("create", "namespace", "short-lived")
        kubectl.run(
            "wait", "--for=create", "--namespace", "short-lived", "serviceaccount/default", "--timeout=60s"
        )
        kubectl.run("delete", "namespace", "short-lived", "--timeout=60s")
        assert not kubectl.succeeds("get", "namespace", "short-lived")
        folder = started.folder
    assert not folder.exists()
