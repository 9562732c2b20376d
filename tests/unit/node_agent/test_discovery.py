"""An agent on a node without GPUs: it waits, and starts or ends when a driver appears."""

from __future__ import annotations

from pathlib import Path

import pytest
from laneway.node_agent.discovery import PAUSE_SECONDS, STALE_ATTEMPTS, StaleContainerError, discover
from laneway.node_agent.gpus.protocol import DriverUnavailableError, GPUError, GPUInfo

GPU = GPUInfo("GPU-1", 0, "H100", 80 << 30)


class Node:
    """What each attempt finds, in order, the last one for ever; and what was told meanwhile."""

    def __init__(self, *attempts: tuple[GPUInfo, ...] | GPUError) -> None:
        self.attempts = list(attempts)
        self.reasons: list[str] = []
        self.waited_seconds = 0.0
        self.closed = False
        self.gives_up_after_seconds = 3600.0

    def find(self) -> tuple[GPUInfo, ...]:
        attempt = self.attempts.pop(0) if len(self.attempts) > 1 else self.attempts[0]
        if isinstance(attempt, GPUError):
            raise attempt
        return attempt

    def report(self, reason: str) -> None:
        self.reasons.append(reason)

    def close(self) -> None:
        self.closed = True

    def wait(self, seconds: float) -> bool:
        self.waited_seconds += seconds
        return self.waited_seconds > self.gives_up_after_seconds

    def discover(self, version_file: Path | None) -> tuple[GPUInfo, ...] | None:
        return discover(self.find, self, self.wait, version_file)


def test_it_starts_when_a_driver_appears(tmp_path: Path) -> None:
    node = Node(DriverUnavailableError("no driver"), (), (GPU,))
    assert node.discover(tmp_path / "version") == (GPU,)
    assert node.reasons == ["no driver", "the driver lists no GPU"]
    assert node.waited_seconds == 2 * PAUSE_SECONDS
    assert node.closed


@pytest.mark.parametrize(
    ("why", "attempt"),
    [
        ("the driver is not loaded", DriverUnavailableError("no library")),
        ("the driver works and lists nothing", ()),
        ("the driver is in trouble, which a new container has as well", GPUError("unknown error")),
    ],
)
def test_it_waits_until_it_is_stopped(tmp_path: Path, why: str, attempt: GPUError | tuple[()]) -> None:
    version_file = tmp_path / "version"
    if why != "the driver is not loaded":
        version_file.touch()
    node = Node(attempt)
    assert node.discover(version_file) is None
    assert node.waited_seconds > node.gives_up_after_seconds
    assert node.closed


def test_it_ends_where_the_driver_is_loaded_and_only_a_new_container_can_use_it(tmp_path: Path) -> None:
    version_file = tmp_path / "version"
    version_file.touch()
    node = Node(DriverUnavailableError("libnvidia-ml.so.1 is not in the container"))
    with pytest.raises(StaleContainerError, match="is loaded on this node, but libnvidia-ml"):
        node.discover(version_file)
    assert node.waited_seconds == (STALE_ATTEMPTS - 1) * PAUSE_SECONDS
    assert node.closed


def test_one_failure_while_the_driver_is_being_replaced_is_not_enough(tmp_path: Path) -> None:
    version_file = tmp_path / "version"
    version_file.touch()
    failed = [DriverUnavailableError("wrong version")] * (STALE_ATTEMPTS - 1)
    assert Node(*failed, (), *failed, (GPU,)).discover(version_file) == (GPU,)


def test_without_a_kubelet_nobody_would_start_it_again() -> None:
    node = Node(DriverUnavailableError("no library"))
    assert node.discover(None) is None
