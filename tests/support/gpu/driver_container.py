"""A container's account in front of the driver, without an agent: programs that call the driver, or use PyTorch, with the interposer.

The account is a server in the test's process, so a test sees each byte of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from laneway.node_agent.memory_accounts.packets import uuid_bytes

from tests.support.account_server import AccountServer
from tests.support.gpu.gpu_memory import Gauge
from tests.support.gpu.workstation import Workstation
from tests.support.isolation.building import fake_driver_variables
from tests.support.isolation.container import Container
from tests.support.isolation.fake_devices import MIB, FakeDevice, make_device


@dataclass
class RealDevice:
    """A GPU of the machine."""

    name: str
    """NVML's: `GPU-` and hexadecimal digits."""

    @property
    def uuid(self) -> bytes:
        found = uuid_bytes(self.name)
        assert found is not None, f"{self.name} is no uuid of a GPU"
        return found

    @property
    def used(self) -> int:
        """Bytes in use by all processes, the driver's reserve left out."""
        used = self._gauge.used_bytes()
        assert used is not None
        return used

    @cached_property
    def _gauge(self) -> Gauge:
        return Gauge(self.name)


@contextmanager
def driver_container(
    workstation: Workstation, name: str, quota_bytes: int = 256 * MIB
) -> Iterator[Container]:
    """Make a container with a quota of the first GPU; for a simulated GPU, of a fake driver's device of 1 GiB.

    Args:
        workstation: the machine; its agent is not asked.
        name: of a folder that does not exist yet.
        quota_bytes: the quota.
    """
    directory = workstation.root / name
    directory.mkdir()
    if workstation.device == "cuda":
        device: RealDevice | FakeDevice = RealDevice(workstation.gpu["uuid"])
        # Images may name the driver's folder there.
        path = os.environ.get("LD_LIBRARY_PATH")
        variables = workstation.visible | ({"LD_LIBRARY_PATH": path} if path else {})
    else:
        devices = directory / "devices"
        devices.mkdir()
        device, variables = make_device(devices, 0, 1024 * MIB), fake_driver_variables(devices)
    account = AccountServer(directory, {device.uuid: quota_bytes})
    account.start()
    try:
        yield Container([device], account, workstation.placed_interposer(directory), variables)
    finally:
        account.stop()
