"""Removes a cluster by the kernel's state and not by stored records, so that it works after any crash.

All of a cluster's processes are below its cgroup, and they keep its namespaces alive. It kills the processes in the cgroup and those that
entered a namespace from outside. Then it removes the cgroups, the mounts below the state folder, the interfaces, the firewall rules, and
the folder.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from hack.cluster import cgroups
from hack.cluster.commands import run
from hack.cluster.inotify_limit import restore_limit
from hack.cluster.layout import cgroup_of, cluster_folder, cluster_lock
from hack.cluster.network import interfaces_of, remove_network
from hack.cluster.probes import wait_until
from hack.cluster.progress import ClusterError, step

_NAMESPACES = ("net", "mnt")
_SETTLE_SECONDS = 20.0


def bring_down(name: str) -> None:
    """Remove everything of a cluster, even half-started or crashed. A cluster that does not exist is no error."""
    if os.geteuid() != 0:
        raise ClusterError("removing the embedded cluster requires root, as starting it does")
    with cluster_lock(name):
        with step(f"stopping the processes of cluster {name!r}"):
            _kill_processes(name)
        with step("removing cgroups, mounts, interfaces and state"):
            cgroups.remove(cgroup_of(name))
            for mount_point in _mounts_below(cluster_folder(name)):
                run(["umount", "--lazy", mount_point])
            remove_network(name)
            shutil.rmtree(cluster_folder(name), ignore_errors=True)
            restore_limit()
        wait_until(lambda: not leftovers(name), f"cluster {name!r} being gone", _SETTLE_SECONDS)


def leftovers(name: str) -> list[str]:
    """Returns the remains of a cluster on this machine, one readable line each."""
    found = [f"process {pid} ({_command_of(pid)})" for pid in sorted(_processes(name))]
    found += [f"cgroup {folder}" for folder in _cgroup_folders(name)]
    found += [f"mount {mount_point}" for mount_point in _mounts_below(cluster_folder(name))]
    found += [f"interface {interface}" for interface in interfaces_of(name)]
    if cluster_folder(name).exists():
        found.append(f"folder {cluster_folder(name)}")
    return found


def _kill_processes(name: str) -> None:
    """Lists the foreign processes first, because they are found through the members' namespaces."""
    foreign = _processes(name) - cgroups.processes(cgroup_of(name))
    cgroups.kill(cgroup_of(name))
    for pid in foreign:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _processes(name: str) -> set[int]:
    """Returns the processes in the cluster's cgroup, and those in any namespace of a member that is not this process' own."""
    members = cgroups.processes(cgroup_of(name))
    own = _namespaces_of(os.getpid())
    theirs = {namespace for pid in members for namespace in _namespaces_of(pid)} - own
    everyone = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return members | {pid for pid in everyone if theirs and not theirs.isdisjoint(_namespaces_of(pid))}


def _namespaces_of(pid: int) -> set[str]:
    found = set()
    for kind in _NAMESPACES:
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
        except OSError:
            continue  # it ended
    return found


def _mounts_below(folder: Path) -> list[str]:
    """Returns the mount points at and below a folder in this process' namespace, innermost first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split(" ")[4].replace("\\040", " ") for line in lines]
    return [point for point in reversed(points) if Path(point).is_relative_to(folder)]


def _cgroup_folders(name: str) -> Iterator[Path]:
    for hierarchy in cgroups.hierarchies():
        folder = hierarchy.mount_point / cgroup_of(name)
        if folder.exists():
            yield folder


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip() or "?"
    except OSError:
        return "?"
