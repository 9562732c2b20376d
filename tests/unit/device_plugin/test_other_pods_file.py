"""What the node's other pods request, from the plugin to the agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from laneway.api import names
from laneway.device_plugin.node_pods import NodePods
from laneway.device_plugin.other_pods_file import OtherPodsFile
from laneway.device_plugin.pod_info import pod_info
from laneway.node_agent.report import other_pods_file as agent_side

from tests.support.device_plugin.builders import labels_of_worker, owner_of_worker


def a_pod(name: str, cpu: str, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    created = {"namespace": "ns", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {**created, **metadata},
        "spec": {"containers": [container]},
        "status": {"phase": phase},
    }


def a_worker(cpu: str, name: str = "j-0", **metadata: Any) -> dict[str, Any]:
    made = {"labels": labels_of_worker("j-0", "u"), "ownerReferences": [owner_of_worker("j-0", "u")]}
    return a_pod(name, cpu, **{**made, **metadata})


def known(*pods: dict[str, Any]) -> NodePods:
    node_pods = NodePods(None)
    node_pods.pods = {info.key: info for info in map(pod_info, pods)}
    node_pods.synced = True
    return node_pods


def test_workers_and_pods_that_have_ended_are_left_out(tmp_path: Path) -> None:
    pods = known(
        a_pod("plain", "1500m"),
        a_pod("going", "1", deletionTimestamp="2026-01-01T00:00:00Z"),
        a_pod("ended", "4", phase="Succeeded"),
        a_worker("8"),
    )
    file = tmp_path / "run" / "pod-requests.json"
    OtherPodsFile(file, pods).write()
    assert json.loads(file.read_text()) == {"version": 1, "requests": {"cpu": "2500m", "pods": "2"}}


def test_a_pod_that_only_looks_like_a_worker_counts_because_the_operator_leaves_it_out(
    tmp_path: Path,
) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    for copied in (
        a_worker("1", ownerReferences=[]),
        a_pod("board", "1", labels={names.JOB_LABEL: "j"}),
        a_worker("1", name="j-copy"),
        a_worker("1", ownerReferences=[owner]),
    ):
        file = tmp_path / "f"
        OtherPodsFile(file, known(copied)).write()
        assert json.loads(file.read_text())["requests"] == {"cpu": "1000m", "pods": "1"}


def test_nothing_is_written_before_the_pods_are_known(tmp_path: Path) -> None:
    pods = known(a_pod("plain", "1"))
    pods.synced = False
    OtherPodsFile(tmp_path / "f", pods).write()
    assert not (tmp_path / "f").exists()


def test_the_agent_reads_what_changes_and_keeps_the_last_valid_sum(tmp_path: Path) -> None:
    file = tmp_path / "f"
    reader, pods = agent_side.OtherPodsFile(file), known(a_pod("plain", "1"))
    writer = OtherPodsFile(file, pods)
    assert not reader.read_if_changed()
    assert reader.requests is None
    writer.write()
    assert reader.read_if_changed()
    assert not reader.read_if_changed()
    assert reader.requests == {"cpu": "1000m", "pods": "1"}
    file.write_text("{}")
    assert not reader.read_if_changed()
    assert reader.requests == {"cpu": "1000m", "pods": "1"}


def test_a_file_that_the_agent_cannot_read_for_a_moment_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pod-requests.json"
    OtherPodsFile(file, known(a_pod("plain", "2"))).write()
    agent = agent_side.OtherPodsFile(file)
    read = Path.read_bytes

    def fail(path: Path) -> bytes:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Path, "read_bytes", fail)
    assert not agent.read_if_changed()
    monkeypatch.setattr(Path, "read_bytes", read)
    assert agent.read_if_changed()
    assert agent.requests == {"cpu": "2000m", "pods": "1"}
