"""The simulated device that lanes contend for: processes that compute at once together get one device's throughput."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.support.node_agent.simulated_device import SimulatedDevice

ROOT = Path(__file__).resolve().parents[3]
KERNEL_SECONDS = 0.01
_WORK = """
import json, sys, time
from pathlib import Path
from tests.support.node_agent.simulated_device import SimulatedDevice
device = SimulatedDevice(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
began, kernels = time.monotonic(), 0
while time.monotonic() < began + 2.0:
    device.run(float(sys.argv[2]))
    kernels += 1
print(json.dumps([kernels, began, time.monotonic()]))
"""


def started(file: Path) -> subprocess.Popen[str]:
    """A process that opened the device."""
    command = [sys.executable, "-c", _WORK, str(file), str(KERNEL_SECONDS)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_kernel_takes_its_time(tmp_path: Path) -> None:
    device = SimulatedDevice(tmp_path / "device")
    began = time.monotonic()
    device.run(0.05)
    assert time.monotonic() - began >= 0.05


def test_processes_together_get_one_throughput(tmp_path: Path) -> None:
    processes = [started(tmp_path / "device") for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    kernels, began, ended = zip(*answers, strict=True)
    assert min(kernels) > 0, "slices go round"
    assert sum(kernels) * KERNEL_SECONDS <= max(ended) - min(began) + KERNEL_SECONDS


def test_a_process_that_dies_leaves_the_device_free(tmp_path: Path) -> None:
    process = started(tmp_path / "device")
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    process.kill()
    process.communicate()
    SimulatedDevice(tmp_path / "device").run(KERNEL_SECONDS)
