"""Installs Laneway on a cluster: builds the images, loads them onto the nodes, installs the chart and waits until it is ready."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laneway.api.names import GPU_PERCENT

from hack.cluster.build import built
from hack.cluster.commands import run
from hack.cluster.probes import wait_until
from hack.cluster.progress import step
from hack.demo.target import Target
from hack.images.build import BuiltImage, build

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "charts" / "laneway"
DEMO_VALUES = Path(__file__).resolve().parent / "values.yaml"
RELEASE = "laneway"
SYSTEM_NAMESPACE = "laneway-system"

_EXAMPLES = "examples"
_HELM_TIMEOUT = "180s"
_ADVERTISED_TIMEOUT_SECONDS = 240.0


@dataclass(frozen=True)
class Installation:
    """An installation of Laneway on a cluster."""

    target: Target
    images: tuple[BuiltImage, ...]
    values: Path = DEMO_VALUES
    """Of the chart, below those of further files."""

    def helm(self, *arguments: str | Path) -> str:
        """Run helm on the cluster; return its standard output.

        Raises:
            ClusterError: helm failed; the message has its output.
        """
        return run([built("helm"), "--kubeconfig", self.target.kubeconfig, *arguments])

    def upgrade(self, *further: str | Path) -> None:
        """Install the chart with its values and more arguments of `helm upgrade`.

        Annotations with the images' hashes replace pods whose image changed, because the tag is always the chart's version.
        """
        content = {image.name: image.content for image in self.images}
        node = "-".join(content[name][:8] for name in ("device-plugin", "node-agent", "client"))
        self.helm(
            *("upgrade", RELEASE, CHART, "--install", "--namespace", SYSTEM_NAMESPACE, "--create-namespace"),
            *("--values", self.values, "--wait", "--timeout", _HELM_TIMEOUT),
            *("--set-string", f"operator.podAnnotations.image-content={content['operator']}"),
            *("--set-string", f"node.podAnnotations.image-content={node}"),
            *further,
        )
        self.wait_until_rolled_out()

    def wait_until_rolled_out(self) -> None:
        """Wait until the operator's and the node pods are of the newest template and ready.

        `helm upgrade --wait` returns while as many node pods as `maxUnavailable` allows are still replaced. A node without its plugin refuses
        workers, and their gang starts once more.

        Raises:
            ClusterError: a pod is not ready in time.
        """
        place = ("--namespace", SYSTEM_NAMESPACE, f"--timeout={_HELM_TIMEOUT}")
        for kind, component in (("deployments", "operator"), ("daemonsets", "node")):
            self.target.kubectl.run("rollout", "status", kind, "--selector", _selector(component), *place)

    def advertised_percent(self) -> dict[str, int]:
        """Return the GPU percent that each node offers."""
        nodes = self.target.kubectl.get("nodes")["items"]
        return {
            node["metadata"]["name"]: int(node["status"]["allocatable"].get(GPU_PERCENT, 0)) for node in nodes
        }

    def wait_until_advertised(self, percent: int) -> None:
        """Wait until every node with a node pod of Laneway offers this GPU percent.

        Raises:
            ClusterError: a node does not in time.
        """

        def all_offer() -> bool:
            # A control-plane node, for example kind's, repels the node pod by its taint and offers nothing.
            daemons = self.target.kubectl.get("daemonsets", "--namespace", SYSTEM_NAMESPACE)["items"]
            wanted = sum(int(daemon["status"]["desiredNumberScheduled"]) for daemon in daemons)
            return 0 < wanted == list(self.advertised_percent().values()).count(percent)

        wait_until(
            all_offer,
            f"every node offering {percent} of {GPU_PERCENT}",
            _ADVERTISED_TIMEOUT_SECONDS,
        )


def install(
    target: Target, *further: str | Path, advertised_percent: int = 400, values: Path = DEMO_VALUES
) -> Installation:
    """Build the images, load them onto the nodes, install the chart and wait until the nodes offer their GPUs.

    Raises:
        ClusterError, ImageError: a step failed; the message says which and why.
    """
    images = tuple(build())
    installation = Installation(target, images, values)
    # The chart does not use the examples' image, which is by far the largest.
    system = [image for image in images if image.name != _EXAMPLES]
    for image in system:
        target.load(image.archive)
    with ThreadPoolExecutor(max_workers=1) as pool:
        loading = [pool.submit(target.load, image.archive) for image in images if image not in system]
        with step(f"installing the chart in namespace {SYSTEM_NAMESPACE}"):
            installation.upgrade(*further)
        for outcome in loading:
            outcome.result()
    with step(f"waiting for the nodes to offer {GPU_PERCENT}"):
        installation.wait_until_advertised(advertised_percent)
    return installation


def laneway_pods(target: Target, component: str) -> list[dict[str, Any]]:
    """Return the pods of a component (operator, node) that nobody has deleted.

    One list, because a pod that ends may be gone before it is read by its name.
    """
    place = ("--namespace", SYSTEM_NAMESPACE, "--selector", _selector(component))
    pods = target.kubectl.get("pods", *place)["items"]
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def system_pods(target: Target, component: str) -> Sequence[str]:
    """Return the names of a component's pods (operator, node) that nobody has deleted."""
    return [pod["metadata"]["name"] for pod in laneway_pods(target, component)]


def _selector(component: str) -> str:
    return f"app.kubernetes.io/component={component},app.kubernetes.io/instance={RELEASE}"
