"""A release is installed from a real registry, as users install it: helm reads the chart there, and containerd the images.

The registry runs on the node, because containerd speaks HTTP with registries on 127.0.0.1 only.
"""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from hack.cluster.build import built
from hack.cluster.embedded import RunningCluster
from hack.cluster.probes import wait_until
from hack.cluster.processes import enter_namespaces
from hack.cluster.teardown import bring_down
from hack.demo.install import DEMO_VALUES, RELEASE, SYSTEM_NAMESPACE
from hack.demo.target import Target, bring_up_embedded
from hack.images.architectures import host
from hack.images.targets import version
from hack.release.chart import build_chart
from hack.release.images import build_images
from hack.release.publish import CHART_REPOSITORY, publish
from tests.e2e.conftest import CLUSTER

IMAGES = ("operator", "device-plugin", "node-agent", "client", "board")
PORT = 5000


@dataclass(frozen=True)
class Registry:
    """Where helm on this machine reaches it, and the node itself."""

    here: str
    on_node: str


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """A cluster of one node, to which no image is loaded."""
    name = f"{CLUSTER}-oci"
    try:
        yield bring_up_embedded(name, 1)
    finally:
        bring_down(name)


@pytest.fixture(scope="module")
def cluster(target: Target) -> RunningCluster:
    assert target.embedded is not None
    return target.embedded


@pytest.fixture(scope="module")
def registry(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """An empty registry on the node."""
    (node,) = cluster.nodes
    folder = tmp_path_factory.mktemp("registry")
    configuration = folder / "registry.yaml"
    storage = {"filesystem": {"rootdirectory": str(folder / "storage")}}
    configuration.write_text(
        yaml.safe_dump({"version": "0.1", "storage": storage, "http": {"addr": f":{PORT}"}}), encoding="utf-8"
    )
    holder = node.holder.pid()
    assert holder is not None
    command = [*enter_namespaces(holder), built("registry"), "serve", configuration]
    address = f"{node.plan.address}:{PORT}"
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_until(
                lambda: answers(f"http://{address}/v2/"), "the registry answers", 60, log=folder / "log"
            )
            yield Registry(address, f"127.0.0.1:{PORT}")
        finally:
            process.terminate()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module")
def digests(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The images of this tree for this machine and a chart that names them, published."""
    dist: Path = tmp_path_factory.mktemp("dist")
    built_images = build_images(dist, version(), 0, IMAGES, [host()])
    build_chart(dist, built_images, 0)
    publish(dist, registry.here, version(), insecure=True)
    return built_images


def test_helm_installs_from_a_registry(
    target: Target, cluster: RunningCluster, registry: Registry, digests: dict[str, str]
) -> None:
    helm = [built("helm"), "--kubeconfig", target.kubeconfig, "install", RELEASE]
    chart = [f"oci://{registry.here}/{CHART_REPOSITORY}", "--version", version(), "--plain-http"]
    options = ["--namespace", SYSTEM_NAMESPACE, "--create-namespace", "--values", DEMO_VALUES]
    options += ["--set", f"image.registry={registry.on_node}", "--set", "board.enabled=true"]
    options += ["--wait", "--timeout", "180s"]
    subprocess.run([*helm, *chart, *options], check=True)

    pods = target.kubectl.get("pods", "--namespace", SYSTEM_NAMESPACE)["items"]
    wanted = {f"{registry.on_node}/laneway/{name}:{version()}@{digest}" for name, digest in digests.items()}
    assert {container["image"] for pod in pods for container in containers(pod["spec"])} == wanted
    ids = {status["imageID"].rpartition("@")[2] for pod in pods for status in statuses(pod["status"])}
    assert ids == set(digests.values())


def containers(spec: dict[str, list[dict[str, str]]]) -> list[dict[str, str]]:
    return [*spec["containers"], *spec.get("initContainers", [])]


def statuses(status: dict[str, list[dict[str, str]]]) -> list[dict[str, str]]:
    return [*status["containerStatuses"], *status.get("initContainerStatuses", [])]
