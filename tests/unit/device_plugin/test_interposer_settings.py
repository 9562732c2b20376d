"""What a container gets for the memory interposer."""

from __future__ import annotations

from pathlib import Path

import pytest
from laneway.device_plugin.allocation import AllocationSettings, grant, response
from laneway.device_plugin.folders import Folders
from laneway.device_plugin.proto.deviceplugin_pb2 import ContainerAllocateResponse

from tests.support.device_plugin.builders import gpu, ids, inventory

FOLDERS = Folders(client=Path("/var/lib/laneway/client"))
PRELOAD = ("/etc/ld.so.preload", "/var/lib/laneway/client/ld.so.preload", True)


def allocated(level: str, *, interposer: bool) -> ContainerAllocateResponse:
    granted = grant(ids(0, range(30)), inventory(gpu(0, enforcement=level, interposer=interposer)))
    return response(granted, FOLDERS, AllocationSettings())


def mounts(level: str, *, interposer: bool) -> list[tuple[str, str, bool]]:
    answer = allocated(level, interposer=interposer)
    return [(mount.container_path, mount.host_path, mount.read_only) for mount in answer.mounts]


@pytest.mark.parametrize("level", ["Interposer", "MPS"])
def test_a_container_on_a_gpu_with_the_interposer_gets_the_linkers_list_read_only(level: str) -> None:
    assert PRELOAD in mounts(level, interposer=True)


@pytest.mark.parametrize("level", ["Cooperative", "Watchdog", "MPS"])
def test_without_the_interposer_the_containers_own_list_stays(level: str) -> None:
    assert "/etc/ld.so.preload" not in [mount[0] for mount in mounts(level, interposer=False)]


@pytest.mark.parametrize("level", ["Cooperative", "Interposer", "MPS"])
def test_the_interposer_starts_the_client_so_the_images_pythonpath_stays(level: str) -> None:
    assert "PYTHONPATH" not in allocated(level, interposer=True).envs


def test_without_the_interposer_a_variable_starts_the_client() -> None:
    value = allocated("Watchdog", interposer=False).envs["PYTHONPATH"]
    assert value == "/opt/laneway:/run/laneway/image-pythonpath"
