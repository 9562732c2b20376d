"""Simulated clusters: short descriptions, and files of nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from laneway.lanes import LaneRules
from laneway.scheduling import HostResources, Node
from laneway.simulator import InputError, Sharing, make_nodes, read_nodes


def rack_of(node: Node) -> str:
    return node.domains[-1].name if node.domains else ""


def test_nodes_are_described_in_short() -> None:
    nodes = make_nodes("2x4, 1x8:H200:141")
    assert [(node.name, len(node.gpus), node.domains) for node in nodes] == [
        ("n0000", 4, ()),
        ("n0001", 4, ()),
        ("n0002", 8, ()),
    ]
    assert nodes[2].gpus[0].model == "H200"
    assert nodes[2].gpus[0].memory_bytes == 141 * 2**30
    assert nodes[2].gpus[0].allocatable_bytes < nodes[2].gpus[0].memory_bytes


def test_nodes_stand_in_racks_that_no_two_parts_share() -> None:
    nodes = make_nodes("3x8:A100:80/rack=2,2x4/rack=2,1x1")
    assert [rack_of(node) for node in nodes] == ["r000", "r000", "r001", "r002", "r002", ""]
    assert make_nodes("2x8/rack=1", levels=("block", "switch"))[1].domains == (
        ("block", ""),
        ("switch", "r001"),
    )
    assert make_nodes("2x8/rack=1", levels=())[1].domains == ()
    assert nodes[0].gpus[0].model == "A100"


def test_sharing_applies_to_all_gpus() -> None:
    ((gpu,),) = (node.gpus for node in Sharing(overcommit=4, max_lanes=2).shared(make_nodes("1x1")))
    assert (gpu.allocatable_percent, gpu.lane_rules) == (400, LaneRules(max_lanes=2))


@pytest.mark.parametrize(
    "text", ["", "8", "0x4", "4x0", "4x4:", "4x4,,2x2", "axb", "4x4/rack=0", "4x4/rack="]
)
def test_nodes_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not describe nodes: write <nodes>x<GPUs per node>"):
        make_nodes(text)


@pytest.mark.parametrize(
    ("options", "says"),
    [({"overcommit": 0}, "overcommit is 0: write 1 or more"), ({"max_lanes": -1}, "max_lanes is -1")],
)
def test_sharing_that_makes_no_sense_is_refused(options: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Sharing(**options)


def test_alibabas_list_of_nodes(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nn-a,64000,1024,2,T4\nn-cpu,8000,512,0,\nn-b,96000,2048,8,G2\n"
    )
    nodes = read_nodes(str(path))
    assert [(node.name, node.host) for node in nodes] == [
        ("n-a", HostResources.of({"cpu": 64000, "memory": 2**30})),
        ("n-b", HostResources.of({"cpu": 96000, "memory": 2**31})),
    ]
    assert [(gpu.uuid, gpu.model, gpu.memory_bytes) for gpu in nodes[0].gpus] == [
        ("n-a-0", "T4", 15109 * 2**20),
        ("n-a-1", "T4", 15109 * 2**20),
    ]
    assert len(nodes[1].gpus) == 8


def test_a_clusters_nodes_stand_where_their_labels_say(tmp_path: Path) -> None:
    """The JSON of ``kubectl get gpunodes,nodes``."""
    gpu = {"uuid": "g", "index": 0, "model": "A100", "memoryBytes": 80, "allocatableBytes": 70}
    gpu |= {"allocatablePercent": 100, "healthy": True}
    labels = {"topology.kubernetes.io/zone": "z1", "example.com/switch": "s7"}
    items = [
        {"kind": "Node", "metadata": {"name": "n", "labels": labels}},
        {"kind": "Node", "metadata": {"name": "without-gpus"}},
        {"kind": "GPUNode", "metadata": {"name": "n"}, "status": {"gpus": [gpu]}},
    ]
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"items": items}))
    (node,) = read_nodes(str(path))
    assert node.domains == (("topology.kubernetes.io/zone", "z1"),)
    (node,) = read_nodes(str(path), levels=("example.com/switch",))
    assert node.domains == (("example.com/switch", "s7"),)
    path.write_text(json.dumps({"items": [*items, {"kind": "Node"}]}))
    with pytest.raises(InputError, match="Node number 2 has no readable metadata"):
        read_nodes(str(path))


def test_tiresias_description_of_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text("num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,2,4,64,256\n")
    nodes = read_nodes(str(path))
    assert [(node.name, rack_of(node), len(node.gpus)) for node in nodes] == [
        ("n0000", "r000", 4),
        ("n0001", "r000", 4),
        ("n0002", "r001", 4),
        ("n0003", "r001", 4),
    ]
    assert {node.host for node in nodes} == {HostResources.of({"cpu": 64000, "memory": 256 * 10**9})}


@pytest.mark.parametrize(
    ("story", "text", "says"),
    [
        ("nothing", "", "lists no node with a GPU"),
        ("broken JSON", '{"items": [', "is not valid JSON"),
        ("JSON of something else", '{"items": [{"kind": "Pod"}]}', "item 0 is not a GPUNode"),
        (
            "another file",
            "a,b\n1,2\n",
            "the columns are a, b: write sn,cpu_milli,memory_mib,gpu,model, or num",
        ),
        ("only CPUs", "sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\n", "lists no node with a GPU"),
        (
            "an unknown model",
            "sn,cpu_milli,memory_mib,gpu,model\na,1,1,2,Z9\n",
            "line 2: model is 'Z9': write one of P4, T4",
        ),
        (
            "the same node twice",
            "sn,cpu_milli,memory_mib,gpu,model\na,1,1,2,T4\na,1,1,2,T4\n",
            "lists a node twice",
        ),
        (
            "no number",
            "sn,cpu_milli,memory_mib,gpu,model\na,1,1,two,T4\n",
            "line 2: gpu is 'two': write a whole",
        ),
    ],
)
def test_an_error_in_a_list_names_its_line(tmp_path: Path, story: str, text: str, says: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        read_nodes(str(path))


def test_a_missing_list_is_reported() -> None:
    with pytest.raises(InputError, match=r"cannot read the nodes nowhere\.csv"):
        read_nodes("nowhere.csv")
