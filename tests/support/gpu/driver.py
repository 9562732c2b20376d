"""What NVML and nvidia-smi say, side by side."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.node_agent.node import eventually

if TYPE_CHECKING:
    from tests.support.gpu.workstation import Workstation

_READ = """
import json
from dataclasses import asdict
from laneway.node_agent.gpus.nvml import NVML
driver = NVML()
gpus = []
for facts in driver.discover():
    reading = driver.read(facts.uuid)
    gpus.append({**asdict(facts), "used_bytes": reading.used_bytes, "utilization_ratio": reading.utilization_ratio,
                 "process_bytes": dict(reading.process_bytes), "processes_hidden": reading.processes_hidden,
                 "process_utilization": None if reading.process_utilization is None else dict(reading.process_utilization),
                 "mps_pids": sorted(reading.mps_pids), "exclusive_process": reading.exclusive_process})
print(json.dumps(gpus))
"""


def nvml(environment: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The GPUs as the agent's own source reads them, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _READ],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@dataclass(frozen=True)
class SmiGPU:
    """A GPU as nvidia-smi prints it."""

    index: int
    uuid: str
    name: str
    memory_mib: int
    reserved_mib: int
    used_mib: int
    compute_mode: str


def nvidia_smi(environment: Mapping[str, str] | None = None) -> tuple[list[SmiGPU], dict[int, int]]:
    """The GPUs, and the memory of the processes that compute on them, in MiB by pid."""
    gpus = _query(
        "--query-gpu=index,uuid,name,memory.total,memory.reserved,memory.used,compute_mode", environment
    )
    processes = _query("--query-compute-apps=pid,used_memory", environment)
    return (
        [
            SmiGPU(int(i), uuid, name, int(total), int(reserved), int(used), mode)
            for i, uuid, name, total, reserved, used, mode in gpus
        ],
        {int(pid): int(used) for pid, used in processes if pid.isdigit() and used.isdigit()},
    )


def _query(what: str, environment: Mapping[str, str] | None) -> list[list[str]]:
    done = subprocess.run(
        ["nvidia-smi", what, "--format=csv,noheader,nounits"],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    return [[cell.strip() for cell in row] for row in csv.reader(done.stdout.splitlines()) if row]


def process_bytes(workstation: Workstation, pid: int) -> tuple[int, str]:
    """What the driver says that a process holds of the first GPU, or why it does not tell."""
    if workstation.device != "cuda":
        return 0, ""
    (gpu,) = [gpu for gpu in nvml() if gpu["uuid"] == workstation.gpu["uuid"]]
    held = gpu["process_bytes"].get(str(pid), 0)
    if not held:
        why = gpu["processes_hidden"] or f"it lists {sorted(gpu['process_bytes'])}"
        return 0, f"the driver tells nothing of process {pid}: {why}"
    return int(held), ""


def why_no_watchdog(workstation: Workstation) -> str:
    """Wait until the agent has settled its enforcement level; return why it has no watchdog, or nothing."""
    eventually("the GPU was read", lambda: "enforcement level changed" in workstation.node.log, seconds=60)
    eventually(
        "its level is settled", lambda: "has not been read" not in workstation.gpu["enforcement_reason"]
    )
    gpu = workstation.gpu
    return "" if gpu["enforcement"] == "Watchdog" else f"{gpu['enforcement']}: {gpu['enforcement_reason']}"
