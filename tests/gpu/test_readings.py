"""What the agent reads of the driver's library is what NVIDIA's own program prints."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.gpu.driver import SmiGPU, nvidia_smi, nvml
from tests.support.node_agent.node import eventually

LIBRARY = Path(__file__).parents[1] / "support/node_agent/fake_nvml.c"
FAKE_SMI = """#!/bin/sh
# Stands for nvidia-smi beside the library that stands for the driver's.
case "$1" in
  --query-gpu=*)
    echo "0, GPU-11111111-0000-0000-0000-000000000000, NVIDIA Test 0, 81920, 1024, 5120, Default"
    echo "1, GPU-22222222-0000-0000-0000-000000000000, NVIDIA Test 1, 81920, 1024, 5120, Default" ;;
  *) echo "100, 3072"; echo "100, 3072" ;;
esac
"""
TOLERANCE_MIB = 64


@pytest.fixture(scope="module")
def driver(device: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the driver is found: its own, or of programs that stand for it."""
    if device == "cuda":
        return {}
    folder = tmp_path_factory.mktemp("driver")
    flags = ["-shared", "-fPIC", "-O1", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run(["gcc", *flags, "-o", str(folder / "libnvidia-ml.so.1"), str(LIBRARY)], check=True)
    (folder / "nvidia-smi").write_text(FAKE_SMI)
    (folder / "nvidia-smi").chmod(0o755)
    return {
        "LD_LIBRARY_PATH": str(folder),
        "PATH": f"{folder}:/usr/bin:/bin",
        "FAKE_NVML_COMPUTE_PROCESSES": "1",
    }


def test_gpus_and_their_memory(driver: dict[str, str]) -> None:
    def agree() -> bool:
        ours, (theirs, _) = nvml(driver), nvidia_smi(driver)
        return all(map(_used_agrees, ours, theirs))

    ours, (theirs, processes) = nvml(driver), nvidia_smi(driver)
    assert [(gpu["index"], gpu["uuid"], gpu["model"]) for gpu in ours] == [
        (gpu.index, gpu.uuid, gpu.name) for gpu in theirs
    ]
    for gpu, other in zip(ours, theirs, strict=True):
        assert gpu["memory_bytes"] >> 20 == pytest.approx(other.memory_mib - other.reserved_mib, abs=1)
        assert gpu["exclusive_process"] == (other.compute_mode == "Exclusive_Process")
        assert gpu["utilization_ratio"] is None or 0 <= gpu["utilization_ratio"] <= 1
    eventually("both say the same of the memory in use", agree, seconds=30)
    for pid, mib in processes.items():
        found = [gpu["process_bytes"][str(pid)] >> 20 for gpu in ours if str(pid) in gpu["process_bytes"]]
        assert not found or found[0] == pytest.approx(mib, abs=TOLERANCE_MIB)


def _used_agrees(ours: dict[str, Any], theirs: SmiGPU) -> bool:
    return bool(abs((ours["used_bytes"] >> 20) - theirs.used_mib) <= TOLERANCE_MIB)
