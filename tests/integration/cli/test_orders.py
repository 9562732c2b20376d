"""Pause and offload by command, against a real API server: the spec of a GPUNode, and its field managers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from laneway.cli import exit_codes

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.cli.conftest import JOB, Shell


class Workers:
    """A job's running workers on a node of their own, and the orders to that node."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.node = f"n-{uuid.uuid4().hex[:8]}"
        self.uids: dict[str, str] = {}
        shell.submit(JOB)
        self.apply("laneway-node", {})
        account = ("serviceaccount/default", "-n", shell.namespace)
        self.shell.kubectl("wait", "--for=create", *account, "--timeout=60s")
        for rank in range(2):
            self._run(f"digits-{rank}")

    def _run(self, name: str) -> None:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"laneway.dev/job": "digits"}},
            "spec": {"nodeName": self.node, "containers": [{"name": "trainer", "image": "training:1"}]},
        }
        self.shell.kubectl("create", "-n", self.shell.namespace, "-f", "-", standard_input=json.dumps(pod))
        self.shell.kubectl(
            "patch", "pod", name, "-n", self.shell.namespace, "--subresource=status", "--type=merge",
            "-p", json.dumps({"status": {"phase": "Running"}}),
        )  # fmt: skip
        found = self.shell.ask("get", "pod", name, "-n", self.shell.namespace, "-o", "json")
        self.uids[name] = json.loads(found)["metadata"]["uid"]

    def apply(self, manager: str, spec: dict[str, Any]) -> None:
        """Apply a spec as another field manager."""
        body = {
            "apiVersion": "laneway.dev/v1alpha1",
            "kind": "GPUNode",
            "metadata": {"name": self.node},
            "spec": spec,
        }
        self.shell.kubectl(
            "apply", "--server-side", "--field-manager", manager, "-f", "-", standard_input=json.dumps(body)
        )

    def say(self, *sessions: dict[str, Any]) -> None:
        """Write the status, as the node does."""
        gpu = {
            "uuid": "GPU-1", "index": 0, "model": "Test", "memoryBytes": 1, "allocatableBytes": 1,
            "allocatablePercent": 100, "healthy": True, "sessions": list(sessions),
        }  # fmt: skip
        self.shell.kubectl(
            "patch", "gpunode", self.node, "--subresource=status", "--type=merge",
            "-p", json.dumps({"status": {"gpuCount": 1, "gpus": [gpu]}}),
        )  # fmt: skip

    @property
    def orders(self) -> dict[str, tuple[str, str]]:
        """The node's orders by pod: what, and why."""
        names = {uid: name for name, uid in self.uids.items()}
        spec = json.loads(self.shell.ask("get", "gpunode", self.node, "-o", "json")).get("spec", {})
        return {
            names.get(order["podUID"], order["podUID"]): (order["order"], order["reason"])
            for order in spec.get("orders", [])
        }


def a_session(pod: str, uid: str) -> dict[str, Any]:
    return {
        "key": uid[:16], "namespace": "default", "pod": pod, "podUID": uid, "container": "trainer",
        "sharePercent": 50, "quotaBytes": 1, "state": "Holding",
    }  # fmt: skip


@pytest.fixture
def workers(shell: Shell, control_plane: LoopbackControlPlane) -> Iterator[Workers]:
    made = Workers(shell)
    yield made
    shell.kubectl("delete", "gpunode", made.node)


def test_a_job_is_paused_and_resumed(shell: Shell, workers: Workers) -> None:
    assert shell.run("pause", "digits", "--reason", "maintenance") == exit_codes.OK
    assert f"digits-0 on {workers.node} ordered to pause" in shell.out
    assert workers.orders == {"digits-0": ("Pause", "maintenance"), "digits-1": ("Pause", "maintenance")}
    assert shell.run("unpause", "digits") == exit_codes.OK, shell.err
    assert workers.orders == {}


def test_the_orders_of_others_stay(shell: Shell, workers: Workers) -> None:
    other = {"podUID": "another-pod", "order": "Pause", "reason": "preempted"}
    workers.apply("laneway-operator", {"orders": [other]})
    assert shell.run("offload", "digits") == exit_codes.OK
    assert workers.orders["another-pod"] == ("Pause", "preempted")
    assert workers.orders["digits-0"] == ("Offload", "by hand")
    assert shell.run("restore", "digits") == exit_codes.OK
    assert workers.orders == {"another-pod": ("Pause", "preempted")}


def test_orders_to_pods_that_are_gone_are_withdrawn(shell: Shell, workers: Workers) -> None:
    workers.apply("laneway-cli", {"orders": [{"podUID": "long-gone", "order": "Pause"}]})
    workers.say(*(a_session(pod, uid) for pod, uid in workers.uids.items()))
    assert shell.run("pause", "digits") == exit_codes.OK
    assert workers.orders.keys() == {"digits-0", "digits-1"}


def test_an_order_is_withdrawn_by_its_own_verb(shell: Shell, workers: Workers) -> None:
    assert shell.run("unpause", "digits") == exit_codes.FAILED
    assert "digits-0 has no order from the command line" in shell.err
    assert shell.run("offload", "digits") == exit_codes.OK
    assert shell.run("unpause", "digits") == exit_codes.FAILED
    assert "the order to digits-0 is Offload: use restore" in shell.err
    assert workers.orders["digits-0"][0] == "Offload", "a refused command changes nothing"


def test_a_job_without_workers_is_reported(shell: Shell, workers: Workers) -> None:
    assert shell.run("pause", "nobody") == exit_codes.NOT_FOUND
    idle = {**JOB, "metadata": {"name": "idle"}}
    shell.submit(idle)
    assert shell.run("pause", "idle") == exit_codes.FAILED
    assert "TrainingJob idle has no running workers to pause" in shell.err
