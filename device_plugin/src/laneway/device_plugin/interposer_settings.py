"""What a container gets if its GPUs have the memory interposer: the dynamic linker's list of libraries to load
first. Without it, what starts the client: a variable of Python's. Pure.

The library itself is in the client's folder, which every container has.
"""

from __future__ import annotations

from collections.abc import Sequence

from laneway.api import names
from laneway.api.inventory import InventoryGPU
from laneway.device_plugin.folders import Folders
from laneway.device_plugin.proto.deviceplugin_pb2 import Mount


def has_interposer(gpus: Sequence[InventoryGPU]) -> bool:
    """Return whether the interposer is loaded into a container with shares of these GPUs."""
    return any(gpu.interposer for gpu in gpus)


def client_start(gpus: Sequence[InventoryGPU]) -> dict[str, str]:
    """Return the variables that start the client. None if the interposer does: the image's own PYTHONPATH
    stays as it is."""
    if has_interposer(gpus):
        return {}
    return {"PYTHONPATH": f"{names.CONTAINER_CLIENT_FOLDER}:{names.CONTAINER_IMAGE_PATH}"}


def interposer_mounts(gpus: Sequence[InventoryGPU], folders: Folders) -> tuple[Mount, ...]:
    """Return the mounts of a container with shares of these GPUs; none if no GPU uses the interposer."""
    if not has_interposer(gpus):
        return ()
    return (
        Mount(
            container_path=names.CONTAINER_PRELOAD_FILE,
            host_path=str(folders.client / names.PRELOAD_NAME),
            read_only=True,
        ),
    )
