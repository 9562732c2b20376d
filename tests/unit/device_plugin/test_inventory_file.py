"""Following the agent's inventory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from laneway.device_plugin.inventory_file import InventoryError, InventoryWatcher, read_inventory

from tests.support.device_plugin.builders import NODE, gpu, inventory


def write(path: Path, text: str) -> None:
    scratch = path.with_suffix(".new")
    scratch.write_text(text)
    scratch.replace(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ('{"version": 2, "node": "n1", "gpus": []}', "version"),
        ('{"version": 1, "node": "other", "gpus": []}', "the file is for node 'other', but this is 'n1'"),
        ('{"version": 1, "node": "n1"}', "gpus: Field required"),
        (inventory(gpu(0), gpu(0)).model_dump_json(), "uuid 'GPU-0' appears more than once"),
        (inventory(gpu(0)).model_dump_json().replace("100", "10"), "gpus.0.allocatable_percent"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "inventory.json"
    write(path, text)

    with pytest.raises(InventoryError) as raised:
        read_inventory(path, NODE)

    assert says in str(raised.value)
    assert str(path) in str(raised.value)


def test_the_last_good_inventory_stays_in_force(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    inventory_watcher = InventoryWatcher(path, NODE)
    inventory_watcher.look()
    assert inventory_watcher.inventory.value is None
    assert "waiting for" in inventory_watcher.problem

    write(path, inventory(gpu(0)).model_dump_json())
    inventory_watcher.look()
    assert inventory_watcher.inventory.value == inventory(gpu(0))
    assert inventory_watcher.problem == ""

    write(path, "rubbish")
    inventory_watcher.look()
    assert inventory_watcher.inventory.value == inventory(gpu(0))
    assert "keeping the last valid one" in inventory_watcher.problem

    path.unlink()
    inventory_watcher.look()
    assert inventory_watcher.inventory.value == inventory(gpu(0))

    write(path, inventory(gpu(0, healthy=False)).model_dump_json())
    inventory_watcher.look()
    assert inventory_watcher.inventory.value == inventory(gpu(0, healthy=False))
    assert inventory_watcher.problem == ""


async def test_health_is_published_both_ways_and_once_each(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    inventory_watcher = InventoryWatcher(path, NODE)
    seen = []
    version = 0
    for healthy in (True, False, True):
        write(path, inventory(gpu(0, healthy=healthy)).model_dump_json())
        inventory_watcher.look()
        inventory_watcher.look()
        version, now = await asyncio.wait_for(inventory_watcher.inventory.wait_newer(version), 60)
        seen.append(now.gpus[0].healthy)

    assert seen == [True, False, True]
    assert version == 3


def test_a_file_that_cannot_be_read_for_a_moment_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "inventory.json"
    write(path, inventory(gpu(0)).model_dump_json())
    inventory_watcher = InventoryWatcher(path, NODE)
    read = Path.read_bytes

    def fail(path: Path) -> bytes:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Path, "read_bytes", fail)
    for _ in range(3):
        inventory_watcher.look()
    assert "Too many open files" in inventory_watcher.problem
    assert caplog.text.count("Too many open files") == 1
    monkeypatch.setattr(Path, "read_bytes", read)
    inventory_watcher.look()
    assert inventory_watcher.inventory.value == inventory(gpu(0))
    assert inventory_watcher.problem == ""


def test_a_file_that_cannot_be_looked_at_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "laneway").touch()
    inventory_watcher = InventoryWatcher(tmp_path / "laneway" / "inventory.json", NODE)
    inventory_watcher.look()
    assert "Not a directory" in inventory_watcher.problem
