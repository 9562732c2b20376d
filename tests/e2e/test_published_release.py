"""A signed release is installed from a real registry, as users install it: helm reads the chart there, and containerd the images.

The layout is that of the install pages: a platform's values file, the operator's namespace `restricted`, the node pods in one of their
own. A job runs there to its end, and the board shows it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, expect

from hack.cluster.build import built
from hack.cluster.embedded import RunningCluster
from hack.cluster.probes import wait_until
from hack.cluster.progress import ClusterError
from hack.cluster.teardown import bring_down
from hack.demo.api import Api
from hack.demo.install import CHART, DEMO_VALUES, RELEASE, SYSTEM_NAMESPACE
from hack.demo.jobs import Jobs
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
from tests.e2e.manifests import small_job
from tests.e2e.node_registry import Registry, registry_on
from tests.e2e.node_view import running
from tests.support.browser import OpenPage, browser, open_page, served
from tests.support.release_key import ReleaseKey, throw_away_key

__all__ = ["browser", "open_page"]

IMAGES = ("operator", "device-plugin", "node-agent", "client", "board")

PLATFORM = CHART / "platforms" / "kubeadm.yaml"
NODE_NAMESPACE = "laneway-nodes"
"""As in that file."""

_ENFORCE = "pod-security.kubernetes.io/enforce"
_RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "runc",
}
"""That of the page about kubeadm has NVIDIA's runtime, which is not here."""

_NODES_RESERVE_MEBIBYTES = 16
"""`node.config.reserveMebibytes` of `DEMO_VALUES`."""

_SECOND_GROUP_RESERVES_MEBIBYTES = 48

TEAM, JOB = "team-a", "digits"
_TRAINS_UNTIL_TOLD = """
import pathlib, time
from laneway.client import iteration
while not pathlib.Path("/tmp/enough").exists():
    with iteration():
        time.sleep(0.05)
    time.sleep(0.05)
"""
_SHOWN_MILLISECONDS = 60_000
"""The nodes publish what they see every five seconds, and other tests keep the machine busy."""


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """A cluster of two nodes, to which no image is loaded."""
    name = f"{CLUSTER}-oci"
    try:
        yield bring_up_embedded(name, 2)
    finally:
        bring_down(name)


@pytest.fixture(scope="module")
def cluster(target: Target) -> RunningCluster:
    assert target.embedded is not None
    return target.embedded


@pytest.fixture(scope="module")
def registry(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry_on(cluster.nodes, tmp_path_factory.mktemp("registry")) as started:
        yield started


@dataclass(frozen=True)
class Release:
    """What was published."""

    digests: dict[str, str]
    """Of the images, by name."""

    published: dict[str, str]
    """All digests, by reference."""

    folder: Path
    key: ReleaseKey

    def image(self, registry: Registry, name: str) -> str:
        """An image as the chart of the release names it."""
        return f"{registry.on_node}/laneway/{name}:{version()}@{self.digests[name]}"


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


@dataclass(frozen=True)
class Installed:
    """The release on the cluster, whose nodes are in two groups."""

    target: Target
    first: str
    second: str
    """The node of each group."""

    def pods(self) -> list[dict[str, Any]]:
        """All pods of Laneway."""
        return [
            pod
            for namespace in (SYSTEM_NAMESPACE, NODE_NAMESPACE)
            for pod in self.target.kubectl.get("pods", "--namespace", namespace)["items"]
        ]


@pytest.fixture(scope="module")
def installed(
    target: Target,
    cluster: RunningCluster,
    registry: Registry,
    release: Release,
    tmp_path_factory: pytest.TempPathFactory,
) -> Installed:
    """As the page about kubeadm installs it, with simulated GPUs and with two groups of nodes."""
    kubectl = target.kubectl
    kubectl.run("create", "namespace", SYSTEM_NAMESPACE)
    kubectl.run("label", "namespace", SYSTEM_NAMESPACE, f"{_ENFORCE}=restricted")
    kubectl.run("apply", "--filename", "-", stdin=json.dumps(_RUNTIME_CLASS))
    first, second = (node.plan.name for node in cluster.nodes)
    kubectl.run("label", "node", first, second, "nvidia.com/gpu.present=true")
    groups = {
        "first": {"nodeSelector": {"kubernetes.io/hostname": first}},
        "second": {
            "nodeSelector": {"kubernetes.io/hostname": second},
            "config": {"reserveMebibytes": _SECOND_GROUP_RESERVES_MEBIBYTES},
        },
    }
    two_groups = tmp_path_factory.mktemp("values") / "two-groups.yaml"
    two_groups.write_text(yaml.safe_dump({"nodeGroups": groups}), encoding="utf-8")

    helm = [built("helm"), "--kubeconfig", target.kubeconfig, "install", RELEASE]
    chart = [f"oci://{registry.here}/{CHART_REPOSITORY}", "--version", version(), "--plain-http"]
    options: list[str | Path] = ["--namespace", SYSTEM_NAMESPACE, "--wait", "--timeout", "600s"]
    for values in (PLATFORM, DEMO_VALUES, two_groups):
        options += ["--values", values]
    options += ["--set", f"image.registry={registry.on_node}", "--set", "board.enabled=true"]
    subprocess.run([*helm, *chart, *options], check=True)
    return Installed(target, first, second)


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


def test_helm_installs_from_a_registry(installed: Installed, registry: Registry, release: Release) -> None:
    wanted = {release.image(registry, name) for name in IMAGES}
    assert {container["image"] for pod in installed.pods() for container in containers(pod["spec"])} == wanted

    def ids() -> set[str]:
        return {
            status["imageID"].rpartition("@")[2]
            for pod in installed.pods()
            for status in statuses(pod["status"])
        }

    # A DaemonSet may have one pod unavailable, so with one node for each `--wait` does not wait for its pod.
    # A pod that is just created has no containers' statuses at all.
    wait_until(lambda: ids() == set(release.digests.values()), "all images run, and no others", 300)


def containers(spec: dict[str, list[dict[str, str]]]) -> list[dict[str, str]]:
    return [*spec["containers"], *spec.get("initContainers", [])]


def statuses(status: dict[str, list[dict[str, str]]]) -> list[dict[str, str]]:
    return [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]


def test_the_operators_namespace_is_restricted_and_the_node_pods_have_their_own(installed: Installed) -> None:
    places = {
        (pod["metadata"]["labels"]["app.kubernetes.io/component"], pod["metadata"]["namespace"])
        for pod in installed.pods()
    }
    assert places == {
        ("operator", SYSTEM_NAMESPACE),
        ("board", SYSTEM_NAMESPACE),
        ("node", NODE_NAMESPACE),
    }
    kubectl = installed.target.kubectl
    assert kubectl.get("namespace", NODE_NAMESPACE)["metadata"]["labels"][_ENFORCE] == "privileged"

    # The label is in force: a node pod would be refused there.
    daemons = kubectl.get("daemonset", "laneway-node-first", "--namespace", NODE_NAMESPACE)
    spec = daemons["spec"]["template"]["spec"] | {"serviceAccountName": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "node"}, "spec": spec}
    create = ("create", "--namespace", SYSTEM_NAMESPACE, "--dry-run=server", "--filename", "-")
    with pytest.raises(ClusterError) as raised:
        kubectl.run(*create, stdin=json.dumps(pod))
    assert 'violates PodSecurity "restricted' in str(raised.value)


def test_the_agent_of_each_node_has_the_configuration_of_its_group(installed: Installed) -> None:
    def reserved_mebibytes() -> dict[str, set[int]]:
        return {
            node["metadata"]["name"]: {
                (gpu["memoryBytes"] - gpu["allocatableBytes"]) // 2**20
                for gpu in node.get("status", {}).get("gpus", ())
            }
            for node in installed.target.kubectl.get("gpunodes")["items"]
        }

    wait_until(
        lambda: len(found := reserved_mebibytes()) == 2 and all(found.values()),
        "both nodes publish their GPUs",
        300,
    )
    assert reserved_mebibytes() == {
        installed.first: {_NODES_RESERVE_MEBIBYTES},
        installed.second: {_SECOND_GROUP_RESERVES_MEBIBYTES},
    }


@pytest.fixture
def jobs(installed: Installed) -> Jobs:
    """Of a namespace of its own."""
    made = Jobs(Api(installed.target.kubeconfig), installed.target.kubectl, TEAM)
    made.make_namespace()
    return made


@pytest.fixture
def readers_token(installed: Installed, jobs: Jobs) -> str:
    """Of a service account with the rights that docs/board.md names, and no others."""
    kubectl, account = installed.target.kubectl, f"--serviceaccount={TEAM}:reader"
    kubectl.run("create", "serviceaccount", "reader", "--namespace", TEAM)
    kubectl.run("create", "rolebinding", "view-reader", "--clusterrole=view", account, "--namespace", TEAM)
    of_nodes = f"--clusterrole={SYSTEM_NAMESPACE}:laneway-gpunodes-view"
    kubectl.run("create", "clusterrolebinding", "gpunodes-reader", of_nodes, account)
    of_turns = ("--role=laneway-turns-view", "--namespace", NODE_NAMESPACE)
    kubectl.run("create", "rolebinding", "turns-reader", account, *of_turns)
    return kubectl.run("create", "token", "reader", "--namespace", TEAM).strip()


def test_a_job_runs_to_its_end_and_the_board_shows_it(
    installed: Installed,
    registry: Registry,
    release: Release,
    jobs: Jobs,
    readers_token: str,
    open_page: OpenPage,
) -> None:
    kubectl = installed.target.kubectl
    manifest = small_job(JOB, spec={"gpus": {"type": "Share", "sharePercent": 30}}, tolerations=[])
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    image = release.image(registry, "client")
    container |= {
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", _TRAINS_UNTIL_TOLD],
    }
    jobs.apply([manifest])
    job = jobs.wait([JOB], running, "running", 300)[JOB]
    (worker,), (pod,) = job.status.placement, jobs.pods(JOB)
    assert pod["spec"]["runtimeClassName"] == "nvidia"

    forward = [kubectl.program, "--kubeconfig", kubectl.kubeconfig, "--namespace", SYSTEM_NAMESPACE]
    forward += ["port-forward", "service/laneway-board", ":80"]
    with served(forward, r"127\.0\.0\.1:\d+") as address:
        page = open_page(f"http://{address}/?namespace={TEAM}#/jobs")
        page.get_by_label("Bearer token").fill(readers_token)
        page.get_by_role("button", name="Sign in").click()
        row = page.get_by_role("row").filter(has_text=f"{TEAM}/{JOB}")
        expect(row).to_contain_text("Running", timeout=_SHOWN_MILLISECONDS)
        check_job(page, worker.node, worker.gpus[0])
        check_node(page, worker.node)

        kubectl.run("exec", f"{JOB}-0", "--namespace", TEAM, "--", "touch", "/tmp/enough")
        page.get_by_role("navigation").get_by_role("link", name="Jobs").click()
        expect(row).to_contain_text("Complete", timeout=_SHOWN_MILLISECONDS)
    assert jobs.view(JOB).has("Complete")


def check_job(page: Page, node: str, gpu: str) -> None:
    """Opens the job and looks at its attempt and where it was placed."""
    page.get_by_role("link", name=f"{TEAM}/{JOB}").click()
    expect(page.get_by_role("region", name="Attempts", exact=True)).to_contain_text("Attempt1")
    placement = page.get_by_role("region", name="Placement")
    expect(placement).to_contain_text(node)
    expect(placement).to_contain_text(gpu)
    expect(page.get_by_role("region", name="Conditions")).to_contain_text("Placed")


def check_node(page: Page, node: str) -> None:
    """Opens the nodes, then the job's, and looks at its lane and at the turns that it takes there."""
    page.get_by_role("navigation").get_by_role("link", name="Nodes").click()
    here = page.get_by_role("region", name=f"Node {node}")
    tile = here.locator("li.gpu").filter(has_text=JOB)
    expect(tile).to_have_count(1, timeout=_SHOWN_MILLISECONDS)
    expect(tile.get_by_title("lane 0")).to_have_count(1, timeout=_SHOWN_MILLISECONDS)
    here.get_by_role("link", name=node).click()
    turns = page.locator(".timeline-row").filter(has_text=JOB)
    part = turns.locator(".timeline-part")
    expect(part).to_have_text(re.compile(r"^[1-9]\d* %$"), timeout=_SHOWN_MILLISECONDS)
