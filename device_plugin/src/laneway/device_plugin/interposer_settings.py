"""What a container gets if its GPUs are enforced by the memory interposer: the dynamic linker's list of
libraries to load first. Pure.

The library itself is in the client's folder, which every container has.
"""

from __future__ import annotations

from collections.abc import Sequence

from laneway.api import names
from laneway.api.inventory import InventoryGPU
from laneway.device_plugin.folders import Folders
from laneway.device_plugin.proto.deviceplugin_pb2 import Mount


def gets_interposer(gpus: Sequence[InventoryGPU]) -> bool:
    """Return whether a container with shares of these GPUs gets the interposer."""
    return any(gpu.interposer for gpu in gpus)


def interposer_mounts(gpus: Sequence[InventoryGPU], folders: Folders) -> tuple[Mount, ...]:
    """Return the mounts of a container with shares of these GPUs; none if no GPU uses the interposer."""
    if not gets_interposer(gpus):
        return ()
    return (
        Mount(
            container_path=names.CONTAINER_PRELOAD_FILE,
            host_path=str(folders.client / names.PRELOAD_NAME),
            read_only=True,
        ),
    )
