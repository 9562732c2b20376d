"""GPUs that fell off the bus while no agent ran."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from laneway.api.inventory import Inventory
from laneway.api.node_config import NodeConfig
from laneway.node_agent.gpus.missing_gpus import with_missing_gpus
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.gpus.protocol import GPUInfo
from laneway.node_agent.inventory_file import inventory_of, write_inventory, write_no_gpus

FIRST = GPUInfo("GPU-0", 0, "H100", 80 << 30, 0, ("GPU-1",), ("/dev/nvidia0",))
SECOND = GPUInfo("GPU-1", 1, "H100", 80 << 30, 1, ("GPU-0",), ("/dev/nvidia1",))


def named_before(folder: Path, *gpus: GPUInfo) -> Path:
    path = folder / "inventory.json"
    write_inventory(path, inventory_of("n1", gpus, NodeConfig(), lambda uuid: GPUHealth()))
    return path


def test_a_gpu_of_the_last_inventory_is_missing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = named_before(tmp_path, FIRST, SECOND)
    assert with_missing_gpus((SECOND,), path) == (FIRST, SECOND)
    assert "GPU is missing gpu=GPU-0" in caplog.text


def test_nothing_is_missing_if_all_are_present_or_none_was_listed(tmp_path: Path) -> None:
    assert with_missing_gpus((SECOND,), tmp_path / "inventory.json") == (SECOND,)
    assert with_missing_gpus((FIRST, SECOND), named_before(tmp_path, FIRST, SECOND)) == (FIRST, SECOND)


def test_a_driver_that_does_not_answer_leaves_the_inventory_of_its_gpus(tmp_path: Path) -> None:
    path = named_before(tmp_path, FIRST)
    write_no_gpus(path, "n1", "the driver hangs")
    assert with_missing_gpus((SECOND,), path) == (FIRST, SECOND)

    path.unlink()
    write_no_gpus(path, "n1", "no driver")
    write_no_gpus(path, "n1", "the driver lists no GPU")
    assert Inventory.model_validate_json(path.read_bytes()).no_gpus_reason == "the driver lists no GPU"
    assert with_missing_gpus((SECOND,), path) == (SECOND,)


def test_simulated_gpus_are_never_missing(tmp_path: Path) -> None:
    simulated = replace(SECOND, simulated=True)
    assert with_missing_gpus((FIRST,), named_before(tmp_path, FIRST, simulated)) == (FIRST,)
    assert with_missing_gpus((simulated,), named_before(tmp_path, FIRST)) == (simulated,)


@pytest.mark.parametrize("text", ["{", '{"version": 1}'])
def test_an_unreadable_inventory_stops_nothing(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "inventory.json"
    path.write_text(text)
    assert with_missing_gpus((FIRST,), path) == (FIRST,)
    assert "cannot look for missing GPUs" in caplog.text
