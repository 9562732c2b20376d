"""A signed release is installed from a real registry, as users install it: helm reads the chart there, and containerd the images.

The registry runs on the node, because containerd speaks HTTP with registries on 127.0.0.1 only.
"""

from __future__ import annotations

import json
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
from hack.release.build import sign_release
from hack.release.chart import build_chart
from hack.release.checksums import SUMS, write_checksums
from hack.release.images import build_images
from hack.release.publish import CHART_REPOSITORY, publish
from hack.release.signatures import ANNOTATION
from tests.e2e.conftest import CLUSTER
from tests.support.release_key import ReleaseKey, throw_away_key

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


@dataclass(frozen=True)
class Release:
    """What was published."""

    digests: dict[str, str]
    """Of the images, by name."""

    published: dict[str, str]
    """All digests, by reference."""

    folder: Path
    key: ReleaseKey


@pytest.fixture(scope="module")
def release(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The images of this tree for this machine and a chart that names them, signed and published."""
    dist: Path = tmp_path_factory.mktemp("dist")
    key = throw_away_key(tmp_path_factory.mktemp("key"))
    digests = build_images(dist, version(), 0, IMAGES, [host()])
    build_chart(dist, digests, 0)
    write_checksums(dist)
    sign_release(dist, key.private, 0)
    return Release(digests, publish(dist, registry.here, version(), insecure=True), dist, key)


def test_what_is_published_is_signed(registry: Registry, release: Release, tmp_path: Path) -> None:
    def crane(*words: str) -> str:
        command = [built("crane"), "--insecure", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert release.key.verifies(release.folder / SUMS, release.folder / f"{SUMS}.sig")
    repositories = [*(f"laneway/{name}" for name in IMAGES), CHART_REPOSITORY]
    for repository in repositories:
        there = f"{registry.here}/{repository}"
        digest = release.published[f"{there}:{version()}"]
        # Where cosign looks for it.
        (layer,) = json.loads(crane("manifest", f"{there}:{digest.replace(':', '-')}.sig"))["layers"]
        payload, signature = tmp_path / "payload", tmp_path / "signature"
        payload.write_text(crane("blob", f"{there}@{layer['digest']}"), encoding="utf-8")
        signature.write_text(layer["annotations"][ANNOTATION], encoding="ascii")
        assert release.key.verifies(payload, signature), repository
        critical = json.loads(payload.read_bytes())["critical"]
        assert critical["image"] == {"docker-manifest-digest": digest}
        assert critical["identity"] == {"docker-reference": f"ghcr.io/{repository}"}


def test_helm_installs_from_a_registry(
    target: Target, cluster: RunningCluster, registry: Registry, release: Release
) -> None:
    helm = [built("helm"), "--kubeconfig", target.kubeconfig, "install", RELEASE]
    chart = [f"oci://{registry.here}/{CHART_REPOSITORY}", "--version", version(), "--plain-http"]
    options = ["--namespace", SYSTEM_NAMESPACE, "--create-namespace", "--values", DEMO_VALUES]
    options += ["--set", f"image.registry={registry.on_node}", "--set", "board.enabled=true"]
    options += ["--wait", "--timeout", "180s"]
    subprocess.run([*helm, *chart, *options], check=True)

    pods = target.kubectl.get("pods", "--namespace", SYSTEM_NAMESPACE)["items"]
    wanted = {
        f"{registry.on_node}/laneway/{name}:{version()}@{digest}" for name, digest in release.digests.items()
    }
    assert {container["image"] for pod in pods for container in containers(pod["spec"])} == wanted

    def ids() -> set[str]:
        pods = target.kubectl.get("pods", "--namespace", SYSTEM_NAMESPACE)["items"]
        return {status["imageID"].rpartition("@")[2] for pod in pods for status in statuses(pod["status"])}

    # A DaemonSet may have one pod unavailable, so on one node `--wait` does not wait for its pod.
    wait_until(lambda: "" not in ids(), "all containers have started", 120)
    assert ids() == set(release.digests.values())


def containers(spec: dict[str, list[dict[str, str]]]) -> list[dict[str, str]]:
    return [*spec["containers"], *spec.get("initContainers", [])]


def statuses(status: dict[str, list[dict[str, str]]]) -> list[dict[str, str]]:
    return [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]
