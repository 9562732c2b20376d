"""Which backend is chosen: a pure function of what the machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.cluster import backends, kind
from hack.cluster.backends import Backend, Machine, choose

OWN = "/var/lib/laneway-clusters/laneway/kubeconfig"


@pytest.mark.parametrize(
    ("machine", "wanted"),
    [
        pytest.param(Machine("/home/me/prod", OWN, "docker", True), Backend.KUBECONFIG, id="explicit-wins"),
        pytest.param(Machine(OWN, OWN, "", False), Backend.EMBEDDED, id="own-kubeconfig-is-no-other-cluster"),
        pytest.param(Machine(OWN, OWN, "docker", True), Backend.KIND, id="own-kubeconfig-of-kind"),
        pytest.param(Machine("", OWN, "docker", True), Backend.KIND, id="docker-and-kind"),
        pytest.param(Machine("", OWN, "podman", True), Backend.KIND, id="podman-and-kind"),
        pytest.param(
            Machine("", OWN, "docker", True, True),
            Backend.EMBEDDED,
            id="kind-does-not-hide-an-embedded-one",
        ),
        pytest.param(Machine("", OWN, "docker", False), Backend.EMBEDDED, id="engine-without-kind"),
        pytest.param(Machine("", OWN, "", True), Backend.EMBEDDED, id="kind-without-an-engine"),
        pytest.param(Machine("", OWN, "", False), Backend.EMBEDDED, id="bare-machine"),
    ],
)
def test_backend_is_chosen_in_order(machine: Machine, wanted: Backend) -> None:
    choice = choose(machine)
    assert choice.backend is wanted
    assert choice.reason


@pytest.mark.parametrize(("docker_status", "wanted"), [(0, "docker"), (1, "")])
def test_a_docker_client_counts_only_with_its_engine(
    docker_status: int, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "docker"
    client.write_text(f"#!/bin/sh\nexit {docker_status}\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert backends.running_engine() == wanted


def test_kind_gets_as_many_workers_as_nodes_and_one_shared_folder(tmp_path: Path) -> None:
    config = kind.cluster_config(3, tmp_path)
    assert [node["role"] for node in config["nodes"]] == ["control-plane", "worker", "worker", "worker"]
    mounts = [mount for node in config["nodes"] for mount in node.get("extraMounts", [])]
    assert mounts == [{"hostPath": str(tmp_path), "containerPath": "/var/lib/laneway-shared"}] * 3
