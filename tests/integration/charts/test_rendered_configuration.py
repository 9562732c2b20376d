"""What the chart writes into the configuration files is what the components read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from laneway.api.config_file import parse_config
from laneway.api.node_config import NodeConfig
from laneway.api.simulated_gpus import SimulatedGPUs
from laneway.operator.main import main
from laneway.scheduling.config.operator_config import OperatorConfig

from hack.chart.generated import CHART
from hack.verify.chart import rendered_objects, variants

ValuesFile = Callable[[str], Path]


def config_maps(values: Path) -> list[dict[str, str]]:
    objects = rendered_objects(values)
    return [found["data"] for found in objects if found["kind"] == "ConfigMap"]


def configuration(values: Path) -> dict[str, str]:
    """The configuration files by name, out of all of the chart's ConfigMaps."""
    return {name: text for data in config_maps(values) for name, text in data.items()}


@pytest.mark.parametrize("values", variants(), ids=lambda path: str(path.name))
def test_every_variant_is_read_by_the_components(values: Path) -> None:
    maps = config_maps(values)
    (operator,) = (files["operator.yaml"] for files in maps if "operator.yaml" in files)
    parse_config(operator, OperatorConfig, "operator.yaml")
    groups = [files for files in maps if "node.yaml" in files]
    assert groups
    for files in groups:
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


@pytest.mark.parametrize(("value", "want"), [("off", "off"), ('"off"', "off"), ("lanes", "lanes")])
def test_nodes_and_planner_share_alike(values_file: ValuesFile, value: str, want: str) -> None:
    files = configuration(values_file(f"sharing: {value}"))
    assert parse_config(files["operator.yaml"], OperatorConfig, "operator.yaml").sharing == want
    assert parse_config(files["node.yaml"], NodeConfig, "node.yaml").sharing == want


def test_a_change_of_configuration_rolls_the_pods(values_file: ValuesFile) -> None:
    def hashes(text: str) -> dict[str, str]:
        objects = rendered_objects(values_file(text))
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
    apart = hashes('sharing: "off"')
    assert all(apart[kind] != before[kind] for kind in ("Deployment", "DaemonSet"))


def test_only_the_device_plugin_sees_the_container_runtimes_socket(values_file: ValuesFile) -> None:
    def seen(text: str) -> tuple[list[str], list[str], list[str]]:
        """What the device plugin is told, which containers mount the socket's folder, and which folder of the host that is."""
        pod = node_pod(values_file(text))
        containers = [*pod["initContainers"], *pod["containers"]]
        mounting = [
            f"{one['name']} {mount['mountPath']}"
            for one in containers
            for mount in one["volumeMounts"]
            if mount["name"] == "runtime"
        ]
        folders = [volume["hostPath"]["path"] for volume in pod["volumes"] if volume["name"] == "runtime"]
        (plugin,) = (one for one in containers if one["name"] == "device-plugin")
        options = [argument for argument in plugin["args"] if argument.startswith("--runtime-socket")]
        return options, mounting, folders

    for level in ("Watchdog", "MPS"):
        assert seen(f"node: {{config: {{enforcement: {{level: {level}}}}}}}") == (
            ["--runtime-socket=/run/containerd/containerd.sock"],
            ["device-plugin /run/containerd"],
            ["/run/containerd"],
        )
    without_socket: tuple[list[str], list[str], list[str]] = (["--runtime-socket="], [], [])
    watched = 'node: {runtimeSocket: "", config: {enforcement: {level: Watchdog}}}'
    assert seen(watched) == without_socket
    assert seen("{}") == without_socket, "the library starts the client"


def node_pod(values: Path) -> dict[str, Any]:
    """The specification of the node pods."""
    objects = [each for each in rendered_objects(values) if each["kind"] == "DaemonSet"]
    (pod,) = (
        each["spec"]["template"]["spec"] for each in objects if each["metadata"]["name"] == "laneway-node"
    )
    return dict(pod)


def test_node_pods_run_on_nodes_with_gpus_unless_values_say_where(values_file: ValuesFile) -> None:
    def keys(text: str) -> list[str]:
        node_affinity = node_pod(values_file(text)).get("affinity", {}).get("nodeAffinity", {})
        terms = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get(
            "nodeSelectorTerms", []
        )
        # Terms are alternatives; more than one expression in a term would all have to hold.
        return [expression["key"] for term in terms for (expression,) in [term["matchExpressions"]]]

    simulated = "gpu: {source: simulated, simulated: {gpus: [{count: 1}]}}"
    own = (
        "node: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        "{nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: Exists}]}]}}}}"
    )
    assert keys("{}") == [
        "nvidia.com/gpu.present",
        "feature.node.kubernetes.io/pci-10de.present",
        "feature.node.kubernetes.io/pci-0302_10de.present",
        "feature.node.kubernetes.io/pci-0300_10de.present",
        "cloud.google.com/gke-accelerator",
        "eks.amazonaws.com/instance-gpu-manufacturer",
        "k8s.amazonaws.com/accelerator",
        "kubernetes.azure.com/accelerator",
    ]
    assert keys("node: {nodeSelector: {gpu: present}}") == []
    assert keys(own) == ["gpu"]
    assert keys(simulated) == []


def test_a_driver_root_takes_the_place_of_nvidias_runtime(values_file: ValuesFile) -> None:
    def agent(text: str) -> tuple[dict[str, Any], dict[str, str], set[str]]:
        pod = node_pod(values_file(text))
        (container,) = (one for one in pod["containers"] if one["name"] == "node-agent")
        environment = {one["name"]: one.get("value", "") for one in container["env"]}
        return container["securityContext"], environment, {m["mountPath"] for m in container["volumeMounts"]}

    security, environment, mounts = agent("{}")
    assert not security.get("privileged")
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert {"/etc/cdi", "/var/run/cdi", "/etc/nvidia-container-runtime"} <= mounts

    security, environment, mounts = agent("node: {config: {driverRoot: /home/kubernetes/bin/nvidia}}")
    assert security["privileged"]
    assert "NVIDIA_VISIBLE_DEVICES" not in environment
    assert environment["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64"
    assert "/usr/local/nvidia" in mounts

    _, _, mounts = agent('node: {cdiFolder: "", nvidiaRuntimeFolder: ""}')
    assert not {"/etc/cdi", "/etc/nvidia-container-runtime"} & mounts


def test_crds_are_kept_by_uninstall_and_left_out_on_demand(values_file: ValuesFile) -> None:
    def crds(text: str) -> list[dict[str, Any]]:
        return [o for o in rendered_objects(values_file(text)) if o["kind"] == "CustomResourceDefinition"]

    of_the_tree = {path.name for path in (CHART / "files" / "crds").glob("*.yaml")}
    assert len(crds("{}")) == len(of_the_tree) == 3
    assert all(crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for crd in crds("{}"))
    assert crds("crds: {enabled: false}") == []


def test_an_operator_that_refuses_its_configuration_replaces_none(
    values_file: ValuesFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Helm cannot know that these two contradict each other. The new pod ends, so it never becomes ready."""
    options = "{medianGpuSeconds: 500, p95GpuSeconds: 100}"
    text = (
        f"operator: {{config: {{scheduling: {{order: {{policy: tiresias-gittins, options: {options}}}}}}}}}"
    )
    values = values_file(text)
    path = tmp_path / "operator.yaml"
    path.write_text(configuration(values)["operator.yaml"], encoding="utf-8")
    assert main(["--config", str(path)]) == 2
    assert "write services above 0, the median the smaller one" in capsys.readouterr().err
    (operator,) = (found for found in rendered_objects(values) if found["kind"] == "Deployment")
    assert operator["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert any("readinessProbe" in each for each in operator["spec"]["template"]["spec"]["containers"])
