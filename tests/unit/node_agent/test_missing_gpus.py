"""GPUs that fell off the bus while no agent ran."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from laneway.api.node_config import NodeConfig
from laneway.node_agent.gpus.missing import with_missing
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.gpus.protocol import GPUFacts
from laneway.node_agent.inventory_file import inventory_of, write_inventory

FIRST = GPUFacts("GPU-0", 0, "H100", 80 << 30, 0, ("GPU-1",), ("/dev/nvidia0",))
SECOND = GPUFacts("GPU-1", 1, "H100", 80 << 30, 1, ("GPU-0",), ("/dev/nvidia1",))


def named_before(folder: Path, *gpus: GPUFacts) -> Path:
    path = folder / "inventory.json"
    write_inventory(path, inventory_of("n1", gpus, NodeConfig(), lambda uuid: GPUHealth()))
    return path


def test_a_gpu_that_was_named_before_is_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = named_before(tmp_path, FIRST, SECOND)
    assert with_missing((SECOND,), path) == (FIRST, SECOND)
    assert "GPU GPU-0 (0, H100) is missing" in caplog.text


def test_nothing_is_missed_where_all_are_there_or_nobody_was_named(tmp_path: Path) -> None:
    assert with_missing((SECOND,), tmp_path / "inventory.json") == (SECOND,)
    assert with_missing((FIRST, SECOND), named_before(tmp_path, FIRST, SECOND)) == (FIRST, SECOND)


def test_simulated_gpus_are_those_of_their_file(tmp_path: Path) -> None:
    simulated = replace(SECOND, simulated=True)
    assert with_missing((FIRST,), named_before(tmp_path, FIRST, simulated)) == (FIRST,)
    assert with_missing((simulated,), named_before(tmp_path, FIRST)) == (simulated,)


@pytest.mark.parametrize("text", ["{", '{"version": 1}'])
def test_an_inventory_that_cannot_be_read_stops_nothing(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "inventory.json"
    path.write_text(text)
    assert with_missing((FIRST,), path) == (FIRST,)
    assert "missing GPUs are not known" in caplog.text
