"""Groups of nodes with values of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from hack.verify.chart import rendered_objects

ValuesFile = Callable[[str], Path]
TWO_GROUPS = """
node:
  runtimeClassName: nvidia
  config: {reserveMebibytes: 600, turns: {policy: las}}
  tolerations: [{operator: Exists}]
nodeGroups:
  a100: {nodeSelector: {pool: a100}, config: {enforcement: {level: MPS}}}
  l4: {nodeSelector: {pool: l4}, runtimeClassName: "", tolerations: []}
"""


def objects(values: Path, kind: str) -> dict[str, dict[str, Any]]:
    found = (each for each in rendered_objects(values) if each["kind"] == kind)
    return {each["metadata"]["name"]: each for each in found}


def node_pods(values: Path) -> dict[str, dict[str, Any]]:
    """The specification of the pods of each DaemonSet."""
    return {name: each["spec"]["template"]["spec"] for name, each in objects(values, "DaemonSet").items()}


def test_without_groups_there_is_one_daemonset(values_file: ValuesFile) -> None:
    assert node_pods(values_file("{}")).keys() == {"laneway-node"}


def test_a_group_is_the_nodes_values_with_changes(values_file: ValuesFile) -> None:
    values = values_file(TWO_GROUPS)
    pods = node_pods(values)
    assert pods.keys() == {"laneway-node-a100", "laneway-node-l4", "laneway-mps-daemon-a100"}
    a100, l4 = pods["laneway-node-a100"], pods["laneway-node-l4"]
    assert (a100["nodeSelector"], a100["runtimeClassName"]) == ({"pool": "a100"}, "nvidia")
    assert (l4["nodeSelector"], "runtimeClassName" in l4) == ({"pool": "l4"}, False)
    assert (a100["tolerations"], "tolerations" in l4) == ([{"operator": "Exists"}], False)
    maps = objects(values, "ConfigMap")
    configs = {
        name: yaml.safe_load(maps[f"laneway-node-{name}"]["data"]["node.yaml"]) for name in ("a100", "l4")
    }
    common = {"gpuSource": "nvml", "sharing": "lanes", "reserveMebibytes": 600, "turns": {"policy": "las"}}
    assert configs == {"a100": common | {"enforcement": {"level": "MPS"}}, "l4": common}


def test_each_daemonset_has_its_own_configuration_and_pods(values_file: ValuesFile) -> None:
    values = values_file(TWO_GROUPS)
    for name, pod in node_pods(values).items():
        mounted = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
        assert mounted == ([] if "mps-daemon" in name else [name])
    selectors = [each["spec"]["selector"]["matchLabels"] for each in objects(values, "DaemonSet").values()]
    for each in selectors:
        assert [other for other in selectors if each.items() <= other.items()] == [each]


def test_a_change_of_one_group_leaves_the_others_alone(values_file: ValuesFile) -> None:
    def hashes(text: str) -> dict[str, str]:
        found = objects(values_file(text), "DaemonSet")
        annotations = {
            name: each["spec"]["template"]["metadata"].get("annotations", {}) for name, each in found.items()
        }
        return {name: each.get("laneway.dev/config-hash", "") for name, each in annotations.items()}

    before, after = (
        hashes(TWO_GROUPS),
        hashes(TWO_GROUPS.replace("level: MPS", "level: MPS, limitThreads: false")),
    )
    assert {name for name in before if before[name] != after[name]} == {"laneway-node-a100"}


def test_pods_with_a_share_may_mount_no_groups_folders(values_file: ValuesFile) -> None:
    groups = "nodeGroups: {cos: {nodeSelector: {a: b}, clientFolder: /var/lib/google/laneway, cdiFolder: /opt/cdi/}}"
    policies = objects(values_file(groups), "ValidatingAdmissionPolicy")
    (variables,) = (each["spec"]["variables"] for name, each in policies.items() if "-pods." in name)
    (paths,) = (json.loads(each["expression"]) for each in variables if each["name"] == "nodesPaths")
    assert {"/var/lib/google/laneway/", "/opt/cdi/", "/etc/cdi/", "/var/lib/laneway/"} <= set(paths)


def test_one_policy_covers_the_ports_of_all_groups(values_file: ValuesFile) -> None:
    policies = objects(values_file(TWO_GROUPS), "NetworkPolicy")
    selector = policies["laneway-node"]["spec"]["podSelector"]["matchLabels"]
    labels = [
        each["spec"]["template"]["metadata"]["labels"]
        for name, each in objects(values_file(TWO_GROUPS), "DaemonSet").items()
        if name.startswith("laneway-node")
    ]
    assert len(labels) == 2
    assert all(selector.items() <= each.items() for each in labels)


def test_the_pods_policy_lists_the_groups_folders_in_one_order(values_file: ValuesFile) -> None:
    groups = {name: {"nodeSelector": {"pool": name}, "cdiFolder": f"/{name}/cdi"} for name in ("a", "b", "c")}
    policies = objects(values_file(json.dumps({"nodeGroups": groups})), "ValidatingAdmissionPolicy")
    variables = policies["laneway-pods.laneway-system.laneway.dev"]["spec"]["variables"]
    (paths,) = (json.loads(each["expression"]) for each in variables if each["name"] == "nodesPaths")
    assert paths == sorted(paths)
    assert {f"/{name}/cdi/" for name in groups} <= set(paths)
