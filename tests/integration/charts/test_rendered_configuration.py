"""What the chart writes into the configuration files is what the components read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from laneway.api.config_file import parse_config
from laneway.api.node_config import NodeConfig
from laneway.api.simulated_gpus import SimulatedGPUs
from laneway.scheduling.config.operator_config import OperatorConfig

from hack.chart.generated import CHART
from hack.verify.chart import rendered, variants

ValuesFile = Callable[[str], Path]


def configuration(values: Path) -> dict[str, str]:
    """The configuration files by name, out of all of the chart's ConfigMaps."""
    objects: list[dict[str, Any]] = [found for found in yaml.safe_load_all(rendered(values)) if found]
    maps = (found["data"] for found in objects if found["kind"] == "ConfigMap")
    return {name: text for data in maps for name, text in data.items()}


def test_every_variant_is_read_by_the_components() -> None:
    for values in variants():
        files = configuration(values)
        parse_config(files["operator.yaml"], OperatorConfig, "operator.yaml")
        node = parse_config(files["node.yaml"], NodeConfig, "node.yaml")
        assert ("gpus.yaml" in files) == (node.gpu_source == "simulated")
        if "gpus.yaml" in files:
            parse_config(files["gpus.yaml"], SimulatedGPUs, "gpus.yaml")


def test_defaults_are_the_components_own(values_file: ValuesFile) -> None:
    files = configuration(values_file("{}"))
    assert parse_config(files["operator.yaml"], OperatorConfig, "operator.yaml") == OperatorConfig()
    assert parse_config(files["node.yaml"], NodeConfig, "node.yaml") == NodeConfig()


def test_the_planner_counts_lanes_as_the_nodes_do(values_file: ValuesFile) -> None:
    files = configuration(values_file("node: {config: {lanes: {maxPerGpu: 3, paddingPercent: 8}}}"))
    operator = parse_config(files["operator.yaml"], OperatorConfig, "operator.yaml")
    node = parse_config(files["node.yaml"], NodeConfig, "node.yaml")
    assert operator.lanes == node.lanes
    assert operator.lanes.max_per_gpu == 3


def test_a_change_of_configuration_rolls_the_pods(values_file: ValuesFile) -> None:
    def hashes(text: str) -> dict[str, str]:
        objects = (found for found in yaml.safe_load_all(rendered(values_file(text))) if found)
        templates = {
            found["kind"]: found["spec"]["template"]
            for found in objects
            if found["kind"] in ("Deployment", "DaemonSet")
        }
        return {
            kind: template["metadata"]["annotations"]["laneway.dev/config-hash"]
            for kind, template in templates.items()
        }

    before = hashes("{}")
    operator = hashes("operator: {config: {logLevel: debug}}")
    assert operator["Deployment"] != before["Deployment"]
    assert operator["DaemonSet"] == before["DaemonSet"]
    assert hashes("node: {config: {overcommitPercent: 200}}")["DaemonSet"] != before["DaemonSet"]


def test_only_the_device_plugin_sees_the_container_runtimes_socket(values_file: ValuesFile) -> None:
    def seen(text: str) -> tuple[list[str], list[str], list[str]]:
        """What the device plugin is told, which containers mount the socket's folder, and which folder of the host that is."""
        objects = yaml.safe_load_all(rendered(values_file(text)))
        (pod,) = (o["spec"]["template"]["spec"] for o in objects if o and o["kind"] == "DaemonSet")
        containers = [*pod["initContainers"], *pod["containers"]]
        mounting = [
            f"{one['name']} {mount['mountPath']}"
            for one in containers
            for mount in one["volumeMounts"]
            if mount["name"] == "runtime"
        ]
        folders = [volume["hostPath"]["path"] for volume in pod["volumes"] if volume["name"] == "runtime"]
        (plugin,) = (one for one in containers if one["name"] == "device-plugin")
        return plugin["args"][2:], mounting, folders

    assert seen("{}") == (
        ["--runtime-socket", "/run/containerd/containerd.sock"],
        ["device-plugin /run/containerd"],
        ["/run/containerd"],
    )
    assert seen('node: {runtimeSocket: ""}') == (["--runtime-socket", ""], [], [])


def test_crds_are_kept_by_uninstall_and_left_out_on_demand(values_file: ValuesFile) -> None:
    def crds(text: str) -> list[dict[str, Any]]:
        return [
            o
            for o in yaml.safe_load_all(rendered(values_file(text)))
            if o and o["kind"] == "CustomResourceDefinition"
        ]

    of_the_tree = {path.name for path in (CHART / "files" / "crds").glob("*.yaml")}
    assert len(crds("{}")) == len(of_the_tree) == 3
    assert all(crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for crd in crds("{}"))
    assert crds("crds: {enabled: false}") == []
