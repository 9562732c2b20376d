"""The cgroup hierarchies of this machine, version 1, 2 or both, and the processes below a path in all of them.

Each process of a cluster is put below `/laneway-<name>` before it runs its program, and a child stays where its parent
is. So the kernel's own list answers "what belongs to this cluster?", however the processes that started it ended.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hack.cluster.progress import ClusterError

_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Hierarchy:
    """One mounted hierarchy. `controllers` are version 1 controllers; empty for version 2."""

    mount_point: Path
    version: int
    controllers: frozenset[str]


def hierarchies() -> tuple[Hierarchy, ...]:
    """Returns all mounted cgroup hierarchies, from /proc/self/mountinfo (proc(5))."""
    found: dict[Path, Hierarchy] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ")[:3]
        root, mount_point = before.split(" ")[3:5]
        if kind in ("cgroup", "cgroup2") and root == "/":
            controllers = (
                frozenset(options.split(",")) - {"rw", "ro"} if kind == "cgroup" else frozenset[str]()
            )
            found[Path(mount_point)] = Hierarchy(Path(mount_point), 1 if kind == "cgroup" else 2, controllers)
    if not found:
        raise ClusterError(
            "no cgroup hierarchy is mounted: the embedded cluster needs /sys/fs/cgroup, writable"
        )
    return tuple(found.values())


def ensure(path: str) -> None:
    """Create a cgroup in every hierarchy, for processes and for a kubelet."""
    for hierarchy in hierarchies():
        folder = hierarchy.mount_point
        for part in path.split("/"):
            if hierarchy.version == 2:
                _delegate_controllers(folder)
            parent, folder = folder, folder / part
            folder.mkdir(exist_ok=True)
            if "cpuset" in hierarchy.controllers:
                _copy_cpuset(parent, folder)


def _delegate_controllers(folder: Path) -> None:
    """Version 2: a child can limit only the controllers that its parent delegates."""
    controllers = (folder / "cgroup.controllers").read_text().split()
    handed_down = (folder / "cgroup.subtree_control").read_text().split()
    for controller in set(controllers) - set(handed_down):
        try:
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError as error:
            raise ClusterError(
                f"{folder} does not hand the controller {controller!r} down ({error}): in a container, start it with "
                "the host's cgroup namespace, or with an init system that moves its processes out of the root cgroup"
            ) from error


def _copy_cpuset(parent: Path, folder: Path) -> None:
    """Version 1: a new cpuset is empty. Processes can enter it only after it names CPUs and memory nodes."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        # Mounted with `noprefix`, as some container runtimes do, the files lose their prefix.
        file = name if (folder / name).exists() else name.removeprefix("cpuset.")
        if not (folder / file).read_text().strip():
            (folder / file).write_text((parent / file).read_text())


def join_script(path: str) -> str:
    """Returns shell commands that move a process into a cgroup of every hierarchy before its program starts."""
    files = (hierarchy.mount_point / path / "cgroup.procs" for hierarchy in hierarchies())
    return " && ".join(f"echo $$ > '{file}'" for file in files)


def processes(path: str) -> set[int]:
    """Returns the processes in a cgroup and its descendants, in any hierarchy."""
    found: set[int] = set()
    for folder in _folders(path):
        try:
            found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
        except OSError:
            continue  # it vanished while we walked, or is a threaded cgroup, whose parent names the process
    return found - {0}  # a process outside our PID namespace reads as 0


def exists(path: str) -> bool:
    return any((hierarchy.mount_point / path).exists() for hierarchy in hierarchies())


def kill(path: str, timeout_seconds: float = 30.0) -> None:
    """kill -9 everything in and below a cgroup until nothing is left. Frozen processes are thawed first, because they cannot die."""
    deadline = time.monotonic() + timeout_seconds
    while members := processes(path):
        if time.monotonic() > deadline:
            raise ClusterError(
                f"processes {sorted(members)} in the cgroup {path} do not die: see /proc/PID/stack"
            )
        for folder in _folders(path):
            for file, thawed in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
                if (folder / file).exists():
                    _write_if_there(folder / file, thawed)
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(_POLL_SECONDS)


def remove(path: str, timeout_seconds: float = 10.0) -> None:
    """Remove an empty cgroup and its descendants. The kernel keeps one busy for a moment after its last process exits."""
    deadline = time.monotonic() + timeout_seconds
    while folders := list(_folders(path)):
        for folder in folders:
            try:
                folder.rmdir()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ClusterError(f"the cgroup {folder} cannot be removed: {error}") from error
        if exists(path):
            time.sleep(_POLL_SECONDS)


def _folders(path: str) -> Iterator[Path]:
    """Yields every cgroup at and below `path` in all hierarchies, children first."""
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy.mount_point / path, topdown=False):
            yield Path(folder)


def _write_if_there(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError:
        return  # the cgroup vanished
