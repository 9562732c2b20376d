"""``laneway-node-agent gpu``, as typed at the node's shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from laneway.api.inventory import Inventory, InventoryGPU
from laneway.node_agent.gpus.health_file import HealthFile
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.inventory_file import write_inventory
from laneway.node_agent.main import main


def a_gpu(index: int, reason: str = "") -> InventoryGPU:
    return InventoryGPU(
        uuid=f"GPU-{index}",
        index=index,
        model="Test",
        memory_bytes=1 << 30,
        reserve_bytes=0,
        allocatable_percent=100,
        healthy=not reason,
        health_reason=reason,
    )


@pytest.fixture
def folders(tmp_path: Path) -> HostFolders:
    folders = HostFolders(tmp_path)
    folders.make()
    write_inventory(folders.inventory, Inventory(node="n1", gpus=(a_gpu(0), a_gpu(1, "XID 79"))))
    return folders


def gpu(folders: HostFolders, *arguments: str) -> int:
    return main(["gpu", "--root", str(folders.root), *arguments])


def test_gpus_are_listed_with_their_health(folders: HostFolders, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu(folders, "list") == 0
    assert capsys.readouterr().out == "0\tGPU-0\thealthy\t\n1\tGPU-1\tunhealthy\tXID 79\n"


@pytest.mark.parametrize("name", ["GPU-1", "1"])
def test_a_gpu_is_cleared_by_uuid_or_index(folders: HostFolders, name: str) -> None:
    assert gpu(folders, "clear", name) == 0
    file = HealthFile(folders.agent_state)
    assert file.clear_requested("GPU-1")
    assert not file.clear_requested("GPU-0")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("0", "GPU-0 is healthy: there is nothing to clear"),
        ("7", "no GPU 7 on this node: write one of 0 (GPU-0)"),
    ],
)
def test_an_impossible_clear_is_refused_with_the_reason(
    folders: HostFolders, name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gpu(folders, "clear", name) == 1
    assert words in capsys.readouterr().err


def test_without_an_inventory_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu(HostFolders(tmp_path), "list") == 1
    assert "the agent has not run on this node" in capsys.readouterr().err
