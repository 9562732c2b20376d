"""``inventory.json``: the GPUs of a node, from the agent (who alone talks to NVML) to the device plugin."""

from __future__ import annotations

from typing import Literal

from laneway.api import quota
from laneway.api.enforcement import Enforcement
from laneway.api.node_config import DeviceStrategy
from laneway.api.records import Record
from pydantic import Field


class InventoryGPU(Record):
    """One GPU."""

    uuid: str = Field(min_length=1, max_length=56)
    index: int = Field(ge=0)
    model: str
    memory_bytes: int = Field(gt=0)
    reserve_bytes: int = Field(ge=0)
    allocatable_percent: int = Field(ge=100)
    numa_node: int | None = None
    nvlink_peers: tuple[str, ...] = ()
    healthy: bool = True
    health_reason: str = ""
    device_paths: tuple[str, ...] = ()
    simulated: bool = False
    enforcement: Enforcement = Enforcement.COOPERATIVE
    """The strongest level that the agent can hold a container on this GPU to."""

    enforcement_reason: str = ""
    """Why that is less than the node was asked for; empty where it is not."""

    interposer: bool = False
    """Containers on it get the memory interposer."""

    mps_limit_bytes: int = Field(default=0, ge=0)
    """At level MPS: how much memory the MPS control daemon lets each client have, the largest quota on the GPU."""

    @property
    def allocatable_bytes(self) -> int:
        """Memory that jobs may use."""
        return quota.allocatable_bytes(self.memory_bytes, self.reserve_bytes)


class DeviceAccess(Record):
    """How the GPUs reach containers. The agent decides it; the device plugin carries it out."""

    strategy: DeviceStrategy | None = None
    """None: the GPUs have no device, as simulated ones."""

    reason: str = ""
    """Why it is this one, and what keeps the node from a stronger one."""

    cdi_kind: str = ""
    """With ``cdi``: the kind of the spec that names the GPUs by uuid."""

    control_paths: tuple[str, ...] = ()
    """Device nodes that every container with a GPU needs."""

    runtime: str = ""
    """Container runtime and version, as the Node names them; empty while unknown."""


class Inventory(Record):
    """All GPUs of a node."""

    version: Literal[1] = 1
    node: str
    gpus: tuple[InventoryGPU, ...]
    no_gpus_reason: str = ""
    """Why there are none."""

    withheld_reason: str = ""
    """Why no new container gets a share; those that have one keep it. Empty where nothing is withheld."""

    devices: DeviceAccess = DeviceAccess()
