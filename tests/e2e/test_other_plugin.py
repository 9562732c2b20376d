"""Another device plugin hands out the same GPUs beside Laneway's: no GPU is promised twice, and the node joins when it may."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.probes import wait_until
from hack.images.targets import TARGETS
from tests.e2e.conftest import Bench
from tests.e2e.manifests import SMALL_IMAGE, small_job
from tests.e2e.node_view import running

RESOURCE = "nvidia.com/gpu"
_PLUGIN = (Path(__file__).parent / "other_plugin.py").read_text()
_SLEEPS = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit()); signal.pause()"
_NOTICED_SECONDS = 240
"""The agent reads its Node every minute."""


def pod_on(node: str, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "nodeSelector": {"kubernetes.io/hostname": node},
            **spec,
        },
    }


def other_plugin(node: str, uuids: list[str]) -> dict[str, Any]:
    container = {
        "name": "plugin",
        "image": TARGETS["device-plugin"].reference,
        "imagePullPolicy": "Never",
        "command": ["/opt/venv/bin/python", "-c", _PLUGIN],
        "env": [{"name": "GPUS", "value": ",".join(uuids)}, {"name": "RESOURCE", "value": RESOURCE}],
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "plugins", "mountPath": "/var/lib/kubelet/device-plugins"}],
    }
    folder = {"path": "/var/lib/kubelet/device-plugins", "type": "Directory"}
    return pod_on(
        node, "other-plugin", containers=[container], volumes=[{"name": "plugins", "hostPath": folder}]
    )


def user_of(node: str, name: str, gpus: int) -> dict[str, Any]:
    """A pod that gets GPUs from the other plugin."""
    container = {
        "name": "main",
        "image": SMALL_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", _SLEEPS],
        "resources": {"limits": {RESOURCE: str(gpus)}},
    }
    return pod_on(node, name, containers=[container])


def whole_gpu(name: str) -> dict[str, Any]:
    spec = {"gpus": {"type": "Count", "count": 1}, "sharing": "Exclusive", "backoffLimit": 0}
    return small_job(name, spec=spec, tolerations=[])


@pytest.fixture
def two_plugins(bench: Bench, gpus: dict[str, list[str]]) -> Iterator[tuple[Bench, str]]:
    """A bench and the node on which another plugin offers all GPUs; afterwards it is Laneway's alone again."""
    node = min(gpus)
    bench.jobs.apply([other_plugin(node, gpus[node])])
    kubectl = bench.laneway.kubectl
    try:
        wait_until(lambda: offered(bench, node) == len(gpus[node]), "the other plugin's GPUs on offer", 150)
        yield bench, node
    finally:
        pods = ("other-plugin", "user")
        kubectl.run("delete", "pod", *pods, "--ignore-not-found", "--namespace", bench.namespace)
        wait_until(
            lambda: doubly_offered(bench, node)["status"] == "False", "only Laneway's", _NOTICED_SECONDS
        )
        bench.laneway.installation.wait_until_advertised(400)


def offered(bench: Bench, node: str) -> int:
    return int(bench.laneway.kubectl.get("node", node)["status"]["allocatable"].get(RESOURCE, 0))


def doubly_offered(bench: Bench, node: str) -> dict[str, Any]:
    conditions = bench.laneway.kubectl.get("gpunode", node)["status"]["conditions"]
    return next(
        (dict(each) for each in conditions if each["type"] == "DoublyOffered"), {"status": "", "message": ""}
    )


def says(bench: Bench, node: str, words: str) -> bool:
    return words in doubly_offered(bench, node)["message"]


def test_no_gpu_is_promised_twice(two_plugins: tuple[Bench, str], gpus: dict[str, list[str]]) -> None:
    bench, node = two_plugins
    jobs, kubectl = bench.jobs, bench.laneway.kubectl

    # More jobs than the other node has GPUs: they fill it, and the last one waits although this node has shares on offer.
    (elsewhere,) = gpus.keys() - {node}
    names = [f"whole-{number}" for number in range(len(gpus[elsewhere]))]
    jobs.apply([*map(whole_gpu, names), user_of(node, "user", len(gpus[node]))])
    views = jobs.wait(names, running, "running on the other node", 240)
    assert {worker.node for name in names for worker in views[name].status.placement} == {elsewhere}
    kubectl.run("wait", "pod/user", "--namespace", bench.namespace, "--for=condition=Ready", "--timeout=120s")
    jobs.apply([whole_gpu("late")])
    waiting = "another device plugin hands out its GPUs"
    jobs.wait(
        ["late"],
        lambda job: bool(job.status.waiting and waiting in job.status.waiting.message),
        "waiting",
        120,
    )
    wait_until(lambda: doubly_offered(bench, node)["status"] == "True", "the agent notices", _NOTICED_SECONDS)

    # The plugin goes, and its user keeps the GPUs.
    kubectl.run("delete", "pod", "other-plugin", "--namespace", bench.namespace)
    wait_until(lambda: offered(bench, node) == 0, "the other plugin is gone", 120)
    wait_until(
        lambda: (
            says(bench, node, "requested by pods")
            and not says(bench, node, f"{RESOURCE}: {len(gpus[node])},")
        ),
        "the agent notices",
        _NOTICED_SECONDS,
    )
    assert doubly_offered(bench, node)["status"] == "True"
    assert not running(jobs.view("late"))

    # The user goes: the node is Laneway's.
    kubectl.run("delete", "pod", "user", "--namespace", bench.namespace)
    late = jobs.wait(["late"], running, "running where the user was", _NOTICED_SECONDS)["late"]
    assert [worker.node for worker in late.status.placement] == [node]
