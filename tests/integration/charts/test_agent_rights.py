"""What the agent's container may do on its node: as much as the level that is asked of it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.verify.chart import rendered

ValuesFile = Callable[[str], Path]
SHM = {"name": "mps-shm", "mountPath": "/dev/shm"}


def pod(values: Path) -> dict[str, Any]:
    """The spec of a node's pod."""
    objects = (found for found in yaml.safe_load_all(rendered(values)) if found)
    (daemon_set,) = (found for found in objects if found["kind"] == "DaemonSet")
    spec: dict[str, Any] = daemon_set["spec"]["template"]["spec"]
    return spec


def container(spec: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (each for each in spec["containers"] if each["name"] == name)
    return dict(found)


@pytest.mark.parametrize(
    ("node", "capabilities"),
    [
        ("{}", ["KILL", "SYS_RESOURCE"]),
        ("{config: {enforcement: {level: Watchdog}}}", ["KILL", "SYS_RESOURCE"]),
        ("{config: {enforcement: {level: Interposer}}}", ["KILL", "SYS_RESOURCE"]),
        ("{config: {enforcement: {level: Cooperative}}}", ["SYS_RESOURCE"]),
        ("{agent: {capabilities: []}}", ["KILL"]),
        ("{agent: {capabilities: []}, config: {enforcement: {level: Cooperative}}}", []),
    ],
)
def test_the_agent_may_end_processes_for_its_watchdog_and_have_descriptors_in_flight(
    values_file: ValuesFile, node: str, capabilities: list[str]
) -> None:
    spec = pod(values_file(f"node: {node}"))
    agent = container(spec, "node-agent")
    assert agent["securityContext"] == {
        "runAsUser": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], **({"add": capabilities} if capabilities else {})},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert SHM not in agent["volumeMounts"]
    assert {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"} in agent["env"]
    others = [*spec["initContainers"], container(spec, "device-plugin")]
    assert all(each["securityContext"]["capabilities"] == {"drop": ["ALL"]} for each in others)


def test_with_mps_the_agent_has_the_daemons_programs_and_shares_memory_with_its_clients(
    values_file: ValuesFile,
) -> None:
    spec = pod(values_file("node: {config: {enforcement: {level: MPS}}}"))
    agent = container(spec, "node-agent")
    assert agent["securityContext"] == {
        "runAsUser": 0,
        "privileged": True,
        "readOnlyRootFilesystem": True,
    }
    assert SHM in agent["volumeMounts"]
    assert {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"} in agent["env"]
    (volume,) = (each for each in spec["volumes"] if each["name"] == "mps-shm")
    assert volume["hostPath"]["path"] == "/run/laneway/mps/shm"
    assert "hostIPC" not in spec
