"""What a container gets where the agent holds its GPUs by MPS: the way to the control daemon, and its limits. Pure.

The daemon and its clients have to share /dev/shm, so a folder that the daemon has there too is mounted over the container's own:
the pod needs no hostIPC.
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
class MPSTerms:
    """What a container gets for MPS; nothing where its GPUs are held otherwise."""

    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()


def mps_terms(gpus: Sequence[InventoryGPU], percent: int, folders: Folders, limit_threads: bool) -> MPSTerms:
    """Return what a container gets for MPS.

    Args:
        gpus: those of the container, in the order in which it sees them.
        percent: of each of them.
        folders: where the daemon's folders are.
        limit_threads: whether it gets no more of the GPUs' threads than its share.
    """
    environment = mps_limits(gpus, percent, names.CONTAINER_MPS_PIPE_FOLDER, limit_threads)
    if not environment:
        return MPSTerms()
    return MPSTerms(
        environment,
        (
            Mount(
                container_path=names.CONTAINER_MPS_PIPE_FOLDER,
                host_path=str(folders.mps / "pipe"),
                read_only=False,
            ),
            Mount(container_path="/dev/shm", host_path=str(folders.mps / "shm"), read_only=False),
        ),
    )
