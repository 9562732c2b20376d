"""The containers on the GPUs, as ``top`` shows them."""

from __future__ import annotations

import json
import re
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from laneway.cli.gpu_node_format import NodeReport, node_report
from laneway.cli.main import main
from laneway.cli.verbs import top

SESSION = {
    "key": "k", "namespace": "team", "pod": "a-0", "container": "trainer", "sharePercent": 50, "quotaBytes": 512 << 20,
    "state": "Holding", "lane": 0, "heldBytes": 256 << 20,
}  # fmt: skip


_VERSIONS = count(1)


def a_node(*sessions: dict[str, Any], name: str = "n1") -> dict[str, Any]:
    """A GPUNode that has just been written."""
    gpu = {
        "uuid": "GPU-1", "index": 3, "model": "Test", "memoryBytes": 1 << 30, "allocatableBytes": 1 << 30,
        "allocatablePercent": 100, "healthy": True, "sessions": sessions,
    }  # fmt: skip
    metadata = {"name": name, "uid": name, "resourceVersion": str(next(_VERSIONS))}
    return {"metadata": metadata, "status": {"deviceStrategy": "cdi", "gpus": [gpu]}}


OTHER = SESSION | {"key": "o", "namespace": "x", "pod": "b-0", "heldBytes": 1 << 30}
ENDED = SESSION | {"key": "e", "pod": "gone-0", "state": "Ended"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the verb reads in place of a cluster."""
    read = SimpleNamespace(nodes=[a_node(SESSION, ENDED, OTHER)], snapshots=[])
    monkeypatch.setattr(top, "open_client", lambda arguments: SimpleNamespace(namespace="team"))
    monkeypatch.setattr(top, "gpu_nodes", lambda client: read.nodes)
    monkeypatch.setattr(top, "watch_gpu_nodes", lambda client: iter(read.snapshots))
    return read


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_read_each_container_with_its_gpu(
    output: str, cluster: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    def items(*words: str) -> list[dict[str, Any]]:
        assert main(["top", "-o", output, *words]) == 0
        text = capsys.readouterr().out
        (found,) = (json.loads(text) if output == "json" else yaml.safe_load(text)).values()
        return list(found)

    (own,) = items()
    place = {"node": "n1", "index": 3, "uuid": "GPU-1"}
    assert own.items() >= (place | SESSION).items()
    assert own["iterations"] == 0
    assert [each["pod"] for each in items("-A")] == ["b-0", "a-0"]
    cluster.nodes = []
    assert items() == []


def test_no_container_is_said(cluster: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.nodes = [a_node(OTHER)]
    assert main(["top", "-o", "wide"]) == 0
    assert capsys.readouterr().out == "No container of namespace team holds a share of a GPU.\n"


def test_what_is_watched_is_shown_when_it_has_changed(
    cluster: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    second = SESSION | {"key": "s", "pod": "c-0", "heldBytes": 0}
    cluster.snapshots = [
        [a_node(second, SESSION)],
        [a_node(second, SESSION, OTHER)],
        [a_node(second, SESSION | {"iterations": 9})],
        [a_node(SESSION | {"iterations": 9}, second | {"state": "Ended"})],
    ]
    assert main(["top", "-w"]) == 0
    words = [
        (line.split()[0], *re.findall("Holding|Ended", line)) for line in capsys.readouterr().out.splitlines()
    ]
    assert words == [("POD",), ("a-0", "Holding"), ("c-0", "Holding"), ("a-0", "Holding"), ("c-0", "Ended")]
    assert main(["top", "--watch", "-o", "yaml"]) == 0
    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [(each["pod"], each["iterations"]) for each in documents] == [("a-0", 0), ("c-0", 0), ("a-0", 9)]


def test_of_many_nodes_only_those_that_have_changed_are_read_again(
    cluster: SimpleNamespace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand nodes write their figures every 15 s."""
    read: list[dict[str, Any]] = []

    def counted(node: dict[str, Any]) -> NodeReport:
        read.append(node)
        return node_report(node)

    monkeypatch.setattr(top, "node_report", counted)
    first, second, third = (a_node(SESSION | {"pod": f"{name}-0"}, name=name) for name in "abc")
    again = a_node(SESSION | {"pod": "b-0", "iterations": 9}, name="b")
    cluster.snapshots = [[first, second, third], [first, again, third], [first, again], [first, again, third]]
    assert main(["top", "-w"]) == 0
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert words == ["POD", "a-0", "b-0", "c-0", "b-0", "c-0", "c-0"], "the node c is gone for a while"
    assert read == [first, second, third, again, third]
