"""What a container gets if its GPUs are enforced by MPS: the way to the control daemon, and its limits. Pure.

The daemon's folder for clients is mounted read-only: connecting to a socket is not a write, and the folder lacks the
socket for commands that change limits. The container keeps its own /dev/shm: from Volta on, clients share no
memory with the server through it, and MPS limits memory only there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from laneway.api import names
from laneway.api.inventory import InventoryGPU
from laneway.api.mps_limits import mps_limits
from laneway.device_plugin.folders import Folders
from laneway.device_plugin.proto.deviceplugin_pb2 import Mount


@dataclass(frozen=True)
class MPSSettings:
    """A container's MPS environment and mounts; empty if its GPUs do not use MPS."""

    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()


def mps_settings(
    gpus: Sequence[InventoryGPU], percent: int, folders: Folders, limit_threads: bool
) -> MPSSettings:
    """Return a container's MPS environment and mounts.

    Args:
        gpus: the container's GPUs, in the order in which it sees them.
        percent: the share of each.
        folders: where the daemon's folders are.
        limit_threads: whether its GPU threads are limited to its share.
    """
    environment = mps_limits(gpus, percent, names.CONTAINER_MPS_PIPE_FOLDER, limit_threads)
    if not environment:
        return MPSSettings()
    return MPSSettings(
        environment,
        (
            Mount(
                container_path=names.CONTAINER_MPS_PIPE_FOLDER,
                host_path=str(folders.mps / names.MPS_CLIENTS_NAME),
                read_only=True,
            ),
        ),
    )
