"""Limits PyTorch's threads to the container's CPU limit.

PyTorch and its libraries start one thread for each core that they see, and a CPU limit hides none. On a node
of 64 cores, 64 threads then share the time of 4 CPUs, and the kernel stops all of them for most of each
period. `OMP_NUM_THREADS` prevents that, and few set it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Optional

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

CGROUPS: Final = "/sys/fs/cgroup"
"""Where a container sees its own cgroup; with version 1, one folder for each controller."""

OMP_NUM_THREADS: Final = "OMP_NUM_THREADS"
_SET_BY_USER: Final = (OMP_NUM_THREADS, "MKL_NUM_THREADS")
_PROCESSES: Final = ("LOCAL_WORLD_SIZE", "PET_NPROC_PER_NODE")
"""The processes of this container that train: as torchrun says, or as it will start them."""


def limit_threads(
    torch: Any, variables: MutableMapping[str, str] = os.environ, folder: str = CGROUPS
) -> None:
    """Limits the threads of this process and of those that it starts, in a container with a share of a GPU,
    unless the user has set their number.

    Args:
        torch: the module.
        variables: the environment, which gets `OMP_NUM_THREADS`.
        folder: where the cgroup is.
    """
    if not variables.get("LANEWAY_DIR") or any(variables.get(name) for name in _SET_BY_USER):
        return
    cpus = cpu_limit(folder)
    if cpus is None or cpus >= len(os.sched_getaffinity(0)):
        return
    threads = max(1, int(cpus) // training_processes(variables))
    variables[OMP_NUM_THREADS] = str(threads)
    if threads < torch.get_num_threads():
        torch.set_num_threads(threads)


def cpu_limit(folder: str = CGROUPS) -> Optional[float]:
    """Returns the CPUs to which the kernel limits this container; None where it does not, or cannot be asked."""
    try:
        quota, period = _read(folder, "cpu.max").split()
    except (OSError, ValueError):
        try:
            quota = _read(folder, "cpu", "cpu.cfs_quota_us")
            period = _read(folder, "cpu", "cpu.cfs_period_us")
        except OSError:
            return None
    try:
        cpus = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # the quota is "max"
        return None
    return cpus if cpus > 0 else None


def _read(*path: str) -> str:
    with open(os.path.join(*path), encoding="ascii") as file:
        return file.read()


def training_processes(variables: Mapping[str, str]) -> int:
    """Returns how many processes of this container train, as far as a launcher says so."""
    for name in _PROCESSES:
        text = variables.get(name, "")
        if text.isdigit() and int(text):
            return int(text)
    return 1
