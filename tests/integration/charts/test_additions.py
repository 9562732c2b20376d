"""What an administrator adds to the pods: arguments, environment, volumes, security contexts, spread."""

from __future__ import annotations

from typing import Any

import pytest

from hack.chart.generated import CHART
from hack.verify.chart import rendered_objects


@pytest.fixture(scope="module")
def pods() -> dict[str, dict[str, Any]]:
    """The pods' specifications by the name of their Deployment or DaemonSet, with each kind of addition."""
    objects = rendered_objects(CHART / "ci" / "groups-values.yaml")
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in objects
        if each["kind"] in ("Deployment", "DaemonSet")
    }


def containers(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in [*pod.get("initContainers", ()), *pod["containers"]]}


def test_arguments_follow_the_charts_own(pods: dict[str, dict[str, Any]]) -> None:
    node = containers(pods["laneway-node-l4"])
    assert containers(pods["laneway-operator"])["operator"]["args"][-1] == "--namespace=laneway-system"
    assert node["device-plugin"]["args"][-1] == "--http-address=0.0.0.0"
    assert node["node-agent"]["args"][-1] == "--log-level=debug"


@pytest.mark.parametrize(
    ("name", "mounting"),
    [("laneway-operator", {"operator"}), ("laneway-node-l4", {"device-plugin", "node-agent"})],
)
def test_volumes_are_mounted_where_the_values_say(
    pods: dict[str, dict[str, Any]], name: str, mounting: set[str]
) -> None:
    pod = pods[name]
    assert {"name": "authorities", "configMap": {"name": "authorities"}} in pod["volumes"]
    mounts = {
        name: [mount["name"] for mount in each.get("volumeMounts", ())]
        for name, each in containers(pod).items()
    }
    assert {name for name, volumes in mounts.items() if "authorities" in volumes} == mounting


def test_security_contexts_are_changed_field_by_field(pods: dict[str, dict[str, Any]]) -> None:
    operator, node = pods["laneway-operator"], containers(pods["laneway-node-l4"])
    assert operator["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pods["laneway-node-l4"]["securityContext"] == {"seLinuxOptions": {"type": "spc_t"}}
    plugin, agent = node["device-plugin"]["securityContext"], node["node-agent"]["securityContext"]
    assert plugin["seccompProfile"] == {"type": "Unconfined"}
    assert plugin["capabilities"] == {"drop": ["ALL"]}
    assert "seccompProfile" not in agent
    assert agent["capabilities"]["add"] == ["KILL", "SYS_RESOURCE"]
    assert agent["appArmorProfile"] == {"type": "Unconfined"}
    assert node["client"]["securityContext"]["readOnlyRootFilesystem"]


def test_operators_spread_over_zones(pods: dict[str, dict[str, Any]]) -> None:
    (constraint,) = pods["laneway-operator"]["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "topology.kubernetes.io/zone"
