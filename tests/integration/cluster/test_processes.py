"""Components of an embedded cluster as processes, without a cluster around them."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.cluster import cgroups
from hack.cluster.probes import wait_until
from hack.cluster.processes import Component

SLOW_TO_END = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
memory = b"x" * (400 << 20)  # the kernel frees this before it closes the socket
print(listener.getsockname()[1], flush=True)
time.sleep(600)
"""


@pytest.fixture
def component(tmp_path: Path) -> Iterator[Component]:
    cgroup = f"laneway-test-processes-{os.getpid()}"
    yield Component("listener", f"{cgroup}/listener", Path(sys.executable), tmp_path / "log")
    cgroups.kill(cgroup)
    cgroups.remove(cgroup)


def test_the_port_of_a_killed_component_is_free(component: Component) -> None:
    """A kubelet that is started again at once would end because its port is in use."""
    component.start([sys.executable, "-c", SLOW_TO_END])
    wait_until(
        lambda: component.log.read_text().endswith("\n"), "the port being known", 30, log=component.log
    )
    component.kill()
    socket.create_server(("127.0.0.1", int(component.log.read_text()))).close()
    assert component.pid() is None
