"""Which processes use a GPU and how much of its memory, and whether NVML can be relied on in that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pynvml
from laneway.node_agent.gpus.nvml_calls import supported

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h. NVML does not name processes that its caller's namespace
does not have, and does not say that it left some out."""


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of one GPU."""

    used_bytes: Mapping[int, int]
    """By pid; 0 where NVML does not tell."""

    mps_pids: frozenset[int]
    hidden: str
    """Why this cannot be relied on, as a clause; empty where it can."""


def read_processes(handle: Any, namespace: Path = Path("/proc/self/ns/pid")) -> Processes:
    """Return the processes of a GPU.

    Raises:
        pynvml.NVMLError: NVML failed.
    """
    used_bytes: dict[int, int] = {}
    untold: list[int] = []
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
                untold.append(pid)
    compute, _, mps = lists
    return Processes(
        used_bytes=used_bytes,
        mps_pids=frozenset(int(process.pid) for process in mps or ()),
        hidden=_why_hidden(compute is None, untold, namespace),
    )


def _why_hidden(unlisted: bool, untold: list[int], namespace: Path) -> str:
    if unlisted:
        return "NVML does not list the processes of this GPU"
    if untold:
        return f"NVML does not tell how much memory process {untold[0]} holds"
    try:
        own = str(namespace.readlink())
    except OSError as error:
        return f"the agent's PID namespace cannot be looked at: {error.strerror}"
    if own != _INITIAL_PID_NAMESPACE:
        return "the agent is not in the host's PID namespace, so NVML leaves processes out: give its pod hostPID: true"
    return ""
