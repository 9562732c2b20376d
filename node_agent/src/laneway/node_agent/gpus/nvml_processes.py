"""Reads the processes of a GPU and their memory from NVML, and whether the list is reliable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pynvml
from laneway.node_agent.gpus.nvml_calls import supported

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h. NVML silently omits processes that the
caller's PID namespace lacks."""


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of one GPU."""

    used_bytes: Mapping[int, int]
    """By pid; 0 if NVML does not report it."""

    mps_pids: frozenset[int]
    hidden: str
    """Why the list is unreliable, as a clause; empty if it is reliable."""


def read_processes(handle: Any, namespace: Path = Path("/proc/self/ns/pid")) -> Processes:
    """Read the processes of a GPU.

    Raises:
        pynvml.NVMLError: NVML failed.
    """
    used_bytes: dict[int, int] = {}
    unreported: list[int] = []
    lists: list[list[Any] | None] = []
    for ask in (
        pynvml.nvmlDeviceGetComputeRunningProcesses,
        pynvml.nvmlDeviceGetGraphicsRunningProcesses,
        pynvml.nvmlDeviceGetMPSComputeRunningProcesses,
    ):
        lists.append(supported(partial(ask, handle)))
        for process in lists[-1] or ():
            # A process that computes and draws is on two lists, with the same figure.
            pid = int(process.pid)
            used_bytes[pid] = max(used_bytes.get(pid, 0), int(process.usedGpuMemory or 0))
            if process.usedGpuMemory is None:
                unreported.append(pid)
    compute, _, mps = lists
    return Processes(
        used_bytes=used_bytes,
        mps_pids=frozenset(int(process.pid) for process in mps or ()),
        hidden=_hidden_reason(compute is None, unreported, namespace),
    )


def _hidden_reason(unlisted: bool, unreported: list[int], namespace: Path) -> str:
    if unlisted:
        return "NVML does not list the processes of this GPU"
    if unreported:
        return f"NVML does not report the memory of process {unreported[0]}"
    try:
        own = str(namespace.readlink())
    except OSError as error:
        return f"the agent's PID namespace cannot be read: {error.strerror}"
    if own != _INITIAL_PID_NAMESPACE:
        return "the agent is not in the host's PID namespace, so NVML omits processes: set hostPID: true in its pod"
    return ""
