"""What an administrator adds to the pods: arguments, environment, volumes, security contexts, spread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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
    board = containers(pods["laneway-board"])["board"]
    assert board["args"][0] == "--authority=/etc/laneway-board/authority/ca.crt"
    assert board["args"][-1] == "--address=0.0.0.0"
    assert node["device-plugin"]["args"][-1] == "--http-address=0.0.0.0"
    assert node["node-agent"]["args"][-1] == "--log-level=debug"


def test_the_board_gets_environment_variables(pods: dict[str, dict[str, Any]]) -> None:
    assert containers(pods["laneway-board"])["board"]["env"] == [{"name": "TZ", "value": "UTC"}]


@pytest.mark.parametrize(
    ("name", "mounting"),
    [
        ("laneway-operator", {"operator"}),
        ("laneway-node-l4", {"device-plugin", "node-agent"}),
        ("laneway-board", {"board"}),
    ],
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
    node = containers(pods["laneway-node-l4"])
    for name in ("laneway-operator", "laneway-board"):
        assert pods[name]["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    assert containers(pods["laneway-board"])["board"]["securityContext"] == {
        "runAsGroup": 65532,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pods["laneway-node-l4"]["securityContext"] == {"seLinuxOptions": {"type": "spc_t"}}
    plugin, agent = node["device-plugin"]["securityContext"], node["node-agent"]["securityContext"]
    assert plugin["seccompProfile"] == {"type": "Unconfined"}
    assert plugin["capabilities"] == {"drop": ["ALL"]}
    assert "seccompProfile" not in agent
    assert agent["capabilities"]["add"] == ["KILL", "SYS_RESOURCE"]
    assert agent["appArmorProfile"] == {"type": "Unconfined"}
    assert node["client"]["securityContext"]["readOnlyRootFilesystem"]


@pytest.mark.parametrize("component", ["operator", "board"])
def test_pods_spread_over_zones(pods: dict[str, dict[str, Any]], component: str) -> None:
    (constraint,) = pods[f"laneway-{component}"]["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "topology.kubernetes.io/zone"
    assert constraint["labelSelector"] == {"matchLabels": {"app.kubernetes.io/component": component}}


@pytest.mark.parametrize("component", ["operator", "board"])
def test_a_pod_stays_restricted_with_the_values_of_an_older_chart(
    values_file: Callable[[str], Path], component: str
) -> None:
    """`helm upgrade --reuse-values` brings them: there is no security context in them."""

    def contexts(values: str) -> list[Any]:
        objects = rendered_objects(
            values_file(f"{component}: {{{values}}}"), "--set", "board.enabled=true,crds.enabled=false"
        )
        (pod,) = (
            each["spec"]["template"]["spec"]
            for each in objects
            if (each["kind"], each["metadata"]["name"]) == ("Deployment", f"laneway-{component}")
        )
        return [pod["securityContext"], containers(pod)[component]["securityContext"]]

    assert contexts("podSecurityContext: null, securityContext: null") == contexts("")
    assert contexts("podSecurityContext: {seccompProfile: null}")[0] == {"runAsNonRoot": True}
    without = "allowPrivilegeEscalation: null, readOnlyRootFilesystem: null, capabilities: null"
    assert contexts(f"securityContext: {{{without}}}")[1] == {}
