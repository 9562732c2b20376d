"""Laneway on an embedded cluster of two nodes with real kubelets, installed by the same code as the demo's."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hack.cluster.embedded import RunningCluster
from hack.cluster.kubectl import Kubectl
from hack.cluster.probes import wait_until
from hack.cluster.teardown import bring_down
from hack.demo.api import Api
from hack.demo.install import Installation, install, laneway_pods
from hack.demo.jobs import Jobs
from hack.demo.output import Outputs
from hack.demo.target import bring_up_embedded
from tests.e2e.crowd import Crowd
from tests.support.file_order import put_first

CLUSTER = "-".join(
    [os.environ.get("LANEWAY_E2E_CLUSTER", "laneway-e2e"), *os.environ.get("PYTEST_XDIST_WORKER", "").split()]
)
"""Each process of the test run has a cluster of its own: tests drain nodes and kill agents."""

GPUS_A_NODE = 4
"""As in `DEMO_VALUES`."""

_MOST_SECONDS = 1800
"""For a test with the set-up before it, which on a new machine builds Kubernetes and the images."""


_FIRST = ("test_race.py", "test_survival.py", "test_published_release.py", "test_upgrade.py", "test_drain.py")
"""The first is busy where the others wait; in one file its tests run one at a time, beside the others. The next is the longest of
these, the third builds a release, and the fourth is one long test. The fifth is short: a process that has two tests left gets the
next file."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives the tests of this folder the time that a cold start takes, and puts some of them first."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(_MOST_SECONDS))
    put_first(items, here, _FIRST)


@dataclass(frozen=True)
class Laneway:
    """The cluster and Laneway on it."""

    installation: Installation
    cluster: RunningCluster
    kubectl: Kubectl
    api: Api


@pytest.fixture(scope="session")
def laneway() -> Iterator[Laneway]:
    """A cluster of this session's own; LANEWAY_KEEP_CLUSTER leaves it for a look."""
    keep = bool(os.environ.get("LANEWAY_KEEP_CLUSTER"))
    try:
        target = bring_up_embedded(CLUSTER, 2)
        cluster = target.embedded
        assert cluster is not None
        yield Laneway(install(target), cluster, target.kubectl, Api(target.kubeconfig))
    finally:
        if not keep:
            bring_down(CLUSTER)


@dataclass(frozen=True)
class Bench:
    """A namespace for one test, and the output of its jobs."""

    laneway: Laneway
    jobs: Jobs
    outputs: Outputs

    @property
    def namespace(self) -> str:
        return self.jobs.namespace

    def follow(self, views: object = None) -> None:
        """Begin to follow the logs of workers that have started."""
        self.outputs.follow(self.jobs.pods())


@pytest.fixture
def bench(laneway: Laneway) -> Iterator[Bench]:
    """A namespace of the test's own; its jobs and pods are gone, and their GPUs free, when the next test begins."""
    jobs = Jobs(laneway.api, laneway.kubectl, f"e2e-{uuid.uuid4().hex[:8]}")
    jobs.make_namespace()
    try:
        yield Bench(laneway, jobs, Outputs(laneway.api, jobs.namespace))
    finally:
        jobs.delete_all()
        pods = ("pods", "--all", "--namespace", jobs.namespace, "--grace-period=1", "--timeout=240s")
        laneway.kubectl.run("delete", *pods)
        laneway.kubectl.run("delete", "namespace", jobs.namespace, "--wait=false")


@pytest.fixture
def gpus(laneway: Laneway) -> dict[str, list[str]]:
    """The uuids of each node's GPUs, once the nodes have published them."""
    found: dict[str, list[str]] = {}

    def all_say() -> bool:
        for node in laneway.kubectl.get("gpunodes")["items"]:
            found[node["metadata"]["name"]] = [gpu["uuid"] for gpu in node.get("status", {}).get("gpus", ())]
        # After a test with fewer GPUs, an agent may still have to publish all of them.
        return len(found) == 2 and all(len(uuids) == GPUS_A_NODE for uuids in found.values())

    wait_until(all_say, "both nodes publish their GPUs", 120)
    return found


@pytest.fixture
def crowd(laneway: Laneway, bench: Bench) -> Iterator[Crowd]:
    """Room for many plain pods; they are gone when the next test begins."""
    pods = laneway_pods(laneway.installation.target, "node")
    agents = {pod["spec"]["nodeName"]: pod["status"]["podIP"] for pod in pods}
    names = [pod["metadata"]["name"] for pod in pods]
    made = Crowd(bench.namespace, laneway.cluster, laneway.kubectl, laneway.api, agents, names)
    try:
        yield made
    finally:
        made.delete()
