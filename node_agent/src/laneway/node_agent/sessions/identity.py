"""Verifies that the peer of a connection is a process of the container. All others are rejected.

The kernel reports which process connected (SO_PEERCRED), and its cgroup names its pod. If the device plugin
could not learn the pod's uid, the process must see the container's own folder where the plugin mounted it. A
job without a pod consists of the processes that its launcher (``run-job``) started.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from laneway.api.container_record import ContainerRecord
from laneway.api.names import CONTAINER_LANEWAY_FOLDER
from laneway.api.pod_cgroup import pod_of
from laneway.node_agent.processes import ancestry

_CREDENTIALS = struct.Struct("3i")
_SO_PEERPIDFD = 77
"""Linux 6.5: a pidfd of the peer, which can never refer to a later process with the same pid."""


class UnknownPeerError(Exception):
    """The peer is not a process of the container, or this cannot be verified; the text says which."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A connected process, with its ids in the agent's namespaces."""

    pid: int
    uid: int


def peer_of(connection: socket.socket) -> Peer:
    """Return the process that connected.

    Raises:
        UnknownPeerError: the agent cannot see that process.
    """
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    if pid == 0:
        raise UnknownPeerError(
            "the peer is in a PID namespace that the agent does not see; give the agent's pod hostPID: true"
        )
    return Peer(pid, uid)


def identify(connection: socket.socket, record: ContainerRecord, folder: Path) -> tuple[Peer, int]:
    """Return the peer and a descriptor that becomes readable when it ends. The caller closes the
    descriptor.

    The descriptor is opened first and checked last: a pid may be reused as soon as its process ends, so what
    /proc says counts only if the process was still alive afterwards.

    Raises:
        UnknownPeerError: the peer is not a process of the container, has ended, or cannot be seen.
    """
    peer = peer_of(connection)
    pidfd = _open_pidfd(connection, peer)
    try:
        _check_while_alive(peer, pidfd, record, folder)
    except BaseException:
        os.close(pidfd)
        raise
    return peer, pidfd


def _check_while_alive(peer: Peer, pidfd: int, record: ContainerRecord, folder: Path) -> None:
    try:
        check_identity(peer, record, folder)
    except UnknownPeerError:
        if not _has_ended(pidfd):
            raise
    if _has_ended(pidfd):
        raise UnknownPeerError(f"process {peer.pid} has ended")


def _open_pidfd(connection: socket.socket, peer: Peer) -> int:
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4)
        return int(struct.unpack("i", raw)[0])
    except OSError:
        pass  # an older kernel, or the process is gone: the next call decides
    try:
        return os.pidfd_open(peer.pid)
    except ProcessLookupError as error:
        raise UnknownPeerError(f"process {peer.pid} has ended") from error
    except OSError as error:
        raise UnknownPeerError(
            f"the agent cannot follow process {peer.pid} (pidfd_open: {error.strerror})"
        ) from error


def _has_ended(pidfd: int) -> bool:
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))


def check_identity(peer: Peer, record: ContainerRecord, folder: Path, proc: Path = Path("/proc")) -> None:
    """Check that a peer belongs to a container.

    Raises:
        UnknownPeerError: it does not, or this cannot be verified.
    """
    launcher = record.launcher
    if launcher is not None:
        if (launcher.pid, launcher.start_ticks) not in ancestry(peer.pid, proc):
            raise UnknownPeerError(
                f"process {peer.pid} was not started by process {launcher.pid}, which launched {record.namespace}/{record.pod}"
            )
        return
    if record.pod_uid:
        cgroup = _read_cgroup(peer, proc)
        if not names_pod(cgroup, record.pod_uid):
            raise UnknownPeerError(
                f"process {peer.pid} is not in a cgroup of pod {record.pod_uid} ({record.namespace}/{record.pod})"
            )
        return
    try:
        same = os.path.samestat(_stat_as_peer(peer, proc, CONTAINER_LANEWAY_FOLDER), folder.stat())
    except OSError as error:
        raise UnknownPeerError(
            f"the pod's uid is not known yet, and {CONTAINER_LANEWAY_FOLDER} as process {peer.pid} sees it cannot be "
            f"checked ({error.strerror}; the agent needs CAP_SYS_PTRACE for that)"
        ) from error
    if not same:
        raise UnknownPeerError(
            f"process {peer.pid} does not see the folder of {record.namespace}/{record.pod} at {CONTAINER_LANEWAY_FOLDER}"
        )


def names_pod(cgroup: str, pod_uid: str) -> bool:
    """Return whether the text of ``/proc/PID/cgroup`` places the process in that pod and in no other."""
    return pod_of(cgroup) == pod_uid


def _stat_as_peer(peer: Peer, proc: Path, path: str) -> os.stat_result:
    """Return the status of a path as the peer sees it, without following links that its container may have
    made."""
    *parents, last = path.strip("/").split("/")
    current = os.open(proc / str(peer.pid) / "root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in parents:
            below = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = below
        return os.stat(last, dir_fd=current, follow_symlinks=False)
    finally:
        os.close(current)


def _read_cgroup(peer: Peer, proc: Path) -> str:
    try:
        return (proc / str(peer.pid) / "cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UnknownPeerError(
            f"the cgroup of process {peer.pid} cannot be read: {error.strerror}"
        ) from error
