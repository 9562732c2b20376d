"""What hands a container its GPUs, by strategy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from laneway.api.inventory import DeviceAccess
from laneway.device_plugin.device_handover import device_handover

from tests.support.device_plugin.builders import gpu

CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm")
REAL = [gpu(index, simulated=False, device_paths=(f"/dev/nvidia{index}",)) for index in (3, 4)]


@dataclass(frozen=True)
class Case:
    name: str
    access: dict[str, Any]
    visible: str | None
    mounts: list[tuple[str, str]] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    cdi: list[str] = field(default_factory=list)
    driver_root: str = ""
    gpus: list[Any] = field(default_factory=lambda: REAL)


DRIVER = "/home/kubernetes/bin/nvidia"
DRIVER_MOUNT = [(DRIVER, "/usr/local/nvidia")]
NODES = ["/dev/nvidia3", "/dev/nvidia4", *CONTROL]
NVIDIA = {"strategy": "cdi", "cdi_kind": "nvidia.com/gpu"}
OWN = {"strategy": "cdi", "cdi_kind": "laneway.dev/gpu"}
SPECS = {"strategy": "device-specs", "control_paths": CONTROL}

CASES = (
    Case("env", {"strategy": "env"}, "GPU-3,GPU-4"),
    Case("NVIDIA's CDI spec", NVIDIA, "void", cdi=["nvidia.com/gpu=GPU-3", "nvidia.com/gpu=GPU-4"]),
    Case(
        "NVIDIA's CDI spec has the libraries",
        NVIDIA,
        "void",
        cdi=["nvidia.com/gpu=GPU-3", "nvidia.com/gpu=GPU-4"],
        driver_root=DRIVER,
    ),
    Case(
        "the agent's CDI spec",
        OWN,
        "void",
        DRIVER_MOUNT,
        cdi=["laneway.dev/gpu=GPU-3", "laneway.dev/gpu=GPU-4"],
        driver_root=DRIVER,
    ),
    Case(
        "the agent's CDI spec, libraries from NVIDIA's runtime",
        OWN,
        "none",
        cdi=["laneway.dev/gpu=GPU-3", "laneway.dev/gpu=GPU-4"],
    ),
    Case("device nodes and a driver root", SPECS, "void", DRIVER_MOUNT, NODES, driver_root=DRIVER),
    Case("device nodes, libraries from NVIDIA's runtime", SPECS, "none", nodes=NODES),
    Case(
        "volume mounts",
        {"strategy": "volume-mounts"},
        "void",
        [("/dev/null", f"/var/run/nvidia-container-devices/GPU-{index}") for index in (3, 4)],
    ),
    Case("a simulated GPU has no device", SPECS, None, gpus=[gpu(0)]),
    Case("no strategy is known", {"strategy": None}, None),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_container_gets_its_own_gpus(case: Case) -> None:
    got = device_handover(case.gpus, DeviceAccess(**case.access), case.driver_root)

    assert got.environment.get("NVIDIA_VISIBLE_DEVICES") == case.visible
    assert [(mount.host_path, mount.container_path) for mount in got.mounts] == case.mounts
    assert all(mount.read_only for mount in got.mounts)
    assert [spec.host_path for spec in got.specs] == case.nodes
    assert all(spec.container_path == spec.host_path and spec.permissions == "rw" for spec in got.specs)
    assert [device.name for device in got.cdi_devices] == case.cdi
