"""What the agent's container may do on its node: as much as the level that is asked of it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hack.verify.chart import rendered_objects

ValuesFile = Callable[[str], Path]


def daemon_sets(values: Path, *arguments: str) -> dict[str, Any]:
    """The specs of the DaemonSets, by component."""
    objects = rendered_objects(values, *arguments)
    return {
        found["metadata"]["labels"]["app.kubernetes.io/component"]: found["spec"]
        for found in objects
        if found["kind"] == "DaemonSet"
    }


def pod(values: Path, component: str = "node") -> dict[str, Any]:
    """The spec of a component's pod."""
    spec: dict[str, Any] = daemon_sets(values)[component]["template"]["spec"]
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
        ("{config: {enforcement: {level: MPS}}}", ["KILL", "SYS_RESOURCE"]),
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
    others = [*spec["initContainers"], container(spec, "device-plugin")]
    assert all(each["securityContext"]["capabilities"] == {"drop": ["ALL"]} for each in others)


MPS = "node: {config: {enforcement: {level: MPS}}}"


def test_only_an_agent_that_tests_the_interposer_or_sets_mps_limits_has_the_cuda_driver(
    values_file: ValuesFile,
) -> None:
    def capabilities(values: str, component: str, name: str) -> list[str]:
        env = container(pod(values_file(values), component), name)["env"]
        return [each["value"] for each in env if each["name"] == "NVIDIA_DRIVER_CAPABILITIES"]

    assert capabilities("{}", "node", "node-agent") == ["compute,utility"]
    watched = "node: {config: {enforcement: {level: Watchdog}}}"
    assert capabilities(watched, "node", "node-agent") == ["utility"]
    assert capabilities(MPS, "node", "node-agent") == ["compute,utility"]
    assert capabilities(MPS, "mps-daemon", "mps-daemon") == ["compute,utility"]


def test_the_mps_daemon_has_a_pod_of_its_own_that_shares_its_folder_and_no_memory(
    values_file: ValuesFile,
) -> None:
    spec = pod(values_file(MPS), "mps-daemon")
    daemon = container(spec, "mps-daemon")
    assert daemon["args"] == ["mps-daemon"]
    assert daemon["securityContext"] == {"runAsUser": 0, "privileged": True, "readOnlyRootFilesystem": True}
    assert {mount["mountPath"] for mount in daemon["volumeMounts"]} == {"/tmp", "/run/laneway"}
    assert spec["hostPID"] is True, "clients' processes have the node's pids"
    assert spec["automountServiceAccountToken"] is False
    assert "hostIPC" not in spec
    node = pod(values_file(MPS))
    assert spec["affinity"] == node["affinity"]
    assert all(mount["mountPath"] != "/dev/shm" for mount in container(node, "node-agent")["volumeMounts"])


def test_the_mps_daemon_sees_a_driver_that_is_installed_later(values_file: ValuesFile) -> None:
    driver = "node: {config: {enforcement: {level: MPS}, driverRoot: /home/kubernetes/bin/nvidia}}"
    mounts = container(pod(values_file(driver), "mps-daemon"), "mps-daemon")["volumeMounts"]
    (mount,) = (each for each in mounts if each["name"] == "driver")
    assert mount["mountPropagation"] == "HostToContainer"


def test_no_mps_daemon_runs_where_it_has_nothing_to_do(values_file: ValuesFile) -> None:
    simulated = "gpu: {source: simulated, simulated: {gpus: [{model: H100, memory: 80Gi}]}}"
    assert set(daemon_sets(values_file("{}"))) == {"node"}
    assert set(daemon_sets(values_file(f"{MPS}\n{simulated}"))) == {"node"}


def test_an_upgrade_leaves_the_mps_daemon_alone(values_file: ValuesFile) -> None:
    """Its end is the end of its clients' work."""
    before = daemon_sets(values_file(MPS))
    changed = "sharing: lanes\nnode: {config: {enforcement: {level: MPS}}, podLabels: {a: b}}"
    configured = daemon_sets(values_file(changed))
    newer = daemon_sets(values_file(MPS), "--set", "image.tag=9.9.9")

    assert configured["node"]["template"] != before["node"]["template"]
    assert configured["mps-daemon"] == before["mps-daemon"]
    assert newer["mps-daemon"]["updateStrategy"] == {"type": "OnDelete"}
    for daemon_set in (before, newer):
        (only,) = daemon_set["mps-daemon"]["template"]["spec"]["containers"]
        del only["image"]
    assert newer["mps-daemon"] == before["mps-daemon"], "no label or annotation names the version"
