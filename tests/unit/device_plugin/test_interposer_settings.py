"""What a container gets for the memory interposer."""

from __future__ import annotations

from pathlib import Path

import pytest
from laneway.device_plugin.allocation import AllocationSettings, grant, response
from laneway.device_plugin.folders import Folders

from tests.support.device_plugin.builders import gpu, ids, inventory

FOLDERS = Folders(client=Path("/var/lib/laneway/client"))
PRELOAD = ("/etc/ld.so.preload", "/var/lib/laneway/client/ld.so.preload", True)


def mounts(level: str, *, interposer: bool) -> list[tuple[str, str, bool]]:
    granted = grant(ids(0, range(30)), inventory(gpu(0, enforcement=level, interposer=interposer)))
    answer = response(granted, FOLDERS, AllocationSettings())
    return [(mount.container_path, mount.host_path, mount.read_only) for mount in answer.mounts]


@pytest.mark.parametrize("level", ["Interposer", "MPS"])
def test_a_container_on_a_gpu_with_the_interposer_gets_the_linkers_list_read_only(level: str) -> None:
    assert PRELOAD in mounts(level, interposer=True)


@pytest.mark.parametrize("level", ["Cooperative", "Watchdog", "MPS"])
def test_without_the_interposer_the_containers_own_list_stays(level: str) -> None:
    assert "/etc/ld.so.preload" not in [mount[0] for mount in mounts(level, interposer=False)]
