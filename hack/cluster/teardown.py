"""Brings a cluster down by what the kernel knows of it, not by what was written down: that works after any crash.

All of a cluster's processes are below its cgroup, and its namespaces live by these processes. So: kill what is in the
cgroup, and what has entered one of its namespaces from outside; then remove the cgroups, what is mounted below the
state folder, the interfaces, the firewall rules, and the folder.
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
    """Remove everything of a cluster, whole, half-started or crashed; nothing is wrong with there being none."""
    if os.geteuid() != 0:
        raise ClusterError("bringing the embedded cluster down needs root, as bringing it up does")
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
    """What this machine still has of a cluster, each as a line for people; empty when it is gone."""
    found = [f"process {pid} ({_command_of(pid)})" for pid in sorted(_processes(name))]
    found += [f"cgroup {folder}" for folder in _cgroup_folders(name)]
    found += [f"mount {mount_point}" for mount_point in _mounts_below(cluster_folder(name))]
    found += [f"interface {interface}" for interface in interfaces_of(name)]
    if cluster_folder(name).exists():
        found.append(f"folder {cluster_folder(name)}")
    return found


def _kill_processes(name: str) -> None:
    """The strangers in the cluster's namespaces are found through its members, so they are listed first."""
    strangers = _processes(name) - cgroups.processes(cgroup_of(name))
    cgroups.kill(cgroup_of(name))
    for pid in strangers:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _processes(name: str) -> set[int]:
    """The processes in the cluster's cgroup and in any namespace that one of them has and this process has not."""
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
    """Mount points at and below a folder in this process's namespace, the innermost first."""
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
