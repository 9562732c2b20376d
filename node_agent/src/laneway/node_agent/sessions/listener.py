"""A listening socket of one container. A peer is verified before any of its bytes is read."""

from __future__ import annotations

import logging
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from laneway.api.container_record import ContainerRecord
from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.rate_limited_log import RateLimitedLog
from laneway.node_agent.sessions.identity import Peer, UnknownPeerError, identify
from laneway.node_agent.sessions.limits import Limits, ProcessLimits
from laneway.node_agent.sessions.sent_descriptors import close_socket, refuse_descriptors
from laneway.node_agent.sessions.token_bucket import TokenBucket

_log = logging.getLogger(__name__)
REOPEN_SECONDS = 0.5


class OpenConnection(Protocol):
    """A connection of a process of the container."""

    def close(self) -> None:
        """End it, once."""
        ...


class SocketServer(Protocol):
    """Serves the connections of one socket of one container."""

    listener: Listener | None
    """Set before the first connection arrives."""

    @property
    def socket_name(self) -> str:
        """Return the socket's name in the container's folder."""
        ...

    def connect(self, connected: socket.socket, peer: Peer, pidfd: int) -> OpenConnection:
        """Serve a verified process. The descriptor becomes readable when it ends; the server closes it."""
        ...

    def max_processes(self, limits: ProcessLimits) -> int:
        """Return how many processes may be connected to the socket."""
        ...

    def rejection(self, reason: str) -> bytes:
        """Return the packet that tells a rejected peer why; empty if there is none."""
        ...

    def discard_all(self) -> None:
        """Forget the processes of a container that has ended."""
        ...


class Listener:
    """Listens in a container's folder and accepts the container's own processes."""

    def __init__(
        self,
        folder: Path,
        record: ContainerRecord,
        server: SocketServer,
        loop: EventLoop,
        clock: Clock,
        limits: Limits,
        process_limits: Callable[[], ProcessLimits],
    ) -> None:
        """Open the socket.

        Args:
            folder: the container's folder.
            record: the container's record.
            server: serves the connections.
            loop: the event loop.
            clock: the loop's clock.
            limits: limits on the container.
            process_limits: returns how many of its processes may be connected now; it depends on the number of
                containers.

        Raises:
            OSError: the folder is gone or cannot be written to.
        """
        self.folder = folder
        self.record = record
        self.connections: set[OpenConnection] = set()
        self.limited_log = RateLimitedLog(_log, clock)
        self._process_limits = process_limits
        self._server = server
        self._socket_name = server.socket_name
        self._loop = loop
        self._clock = clock
        self._limits = limits
        self._accepts = TokenBucket(limits.accept_burst, limits.accepts_per_second, clock)
        self._missing_since_seconds: float | None = None
        self._socket, self._inode = self._listen()
        loop.add_reader(self._socket.fileno(), self._accept)

    @property
    def name(self) -> str:
        """Return the container's name for messages."""
        return f"{self.record.namespace}/{self.record.pod}/{self.record.container}"

    def max_processes(self) -> int:
        """Return how many of the container's processes may be connected to the socket now."""
        return self._server.max_processes(self._process_limits())

    def ensure_listening(self) -> None:
        """Listen again if the socket was removed; connections stay.

        Not at once: the plugin removes the socket before the folder and must not find a new one in it.

        Raises:
            OSError: the folder is gone or cannot be written to.
        """
        self.limited_log.flush_suppressed()
        if self._is_in_place():
            self._missing_since_seconds = None
            return
        now_seconds = self._clock.monotonic()
        if self._missing_since_seconds is None:
            self._missing_since_seconds = now_seconds
        if now_seconds - self._missing_since_seconds < REOPEN_SECONDS:
            return
        self._stop_listening()
        self._socket, self._inode = self._listen()
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _is_in_place(self) -> bool:
        try:
            return (self.folder / self._socket_name).lstat().st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        """Close the socket and all connections."""
        self._stop_listening()
        with suppress(OSError):
            if self._is_in_place():
                (self.folder / self._socket_name).unlink()
        for connection in tuple(self.connections):
            connection.close()

    def leave(self, connection: OpenConnection) -> None:
        """Forget a closed connection."""
        self.connections.discard(connection)

    def _listen(self) -> tuple[socket.socket, int]:
        """Bind under a temporary name and rename, so that a visible socket always accepts connections.

        The path goes through a descriptor of the folder, because a socket's path has at most 107 bytes.
        """
        directory = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return self._listen_in(directory)
        finally:
            os.close(directory)

    def _listen_in(self, directory: int) -> tuple[socket.socket, int]:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        temporary = f".{self._socket_name}.{os.getpid()}"
        try:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
            sock.bind(f"/proc/self/fd/{directory}/{temporary}")
            inode = _make_connectable(temporary, directory)
            sock.setblocking(False)
            refuse_descriptors(sock)
            sock.listen(16)
            os.replace(temporary, self._socket_name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            sock.close()
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
        return sock, inode

    def _stop_listening(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            close_socket(self._socket)

    def _accept(self) -> None:
        if not self._accepts.take():
            self._pause_accepting()
            return
        try:
            connected, _ = self._socket.accept()
        except OSError as error:
            if not isinstance(error, BlockingIOError | InterruptedError):
                self.limited_log.warning(
                    "accept", f"accept failed container={self.name} error={str(error)!r}"
                )
            return
        most = self.max_processes()
        if len(self.connections) >= most:
            self._reject(connected, f"the container has {most} connections already and gets no more")
            return
        try:
            peer, pidfd = identify(connected, self.record, self.folder)
        except UnknownPeerError as error:
            self._reject(connected, str(error))
            return
        self.connections.add(self._server.connect(connected, peer, pidfd))

    def _reject(self, connected: socket.socket, reason: str) -> None:
        self.limited_log.warning(
            "turned away", f"connection rejected container={self.name} reason={reason!r}"
        )
        packet = self._server.rejection(reason)
        with suppress(OSError):
            if packet:
                connected.send(packet, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        close_socket(connected)

    def _pause_accepting(self) -> None:
        """Accept no connections of this container for a while; they wait in its own queue."""
        self.limited_log.warning(
            "too fast",
            f"container connects too often container={self.name} accepts_per_second={self._limits.accepts_per_second}",
        )
        sock = self._socket
        self._loop.remove_reader(sock.fileno())

        def again() -> None:
            if sock.fileno() >= 0:
                self._loop.add_reader(sock.fileno(), self._accept)

        self._loop.call_at(self._clock.monotonic() + self._accepts.seconds_until(), again)


def _make_connectable(name: str, directory: int) -> int:
    """Allow connecting to a socket, which takes write permission, and return its inode.

    The folder is mounted into this container only. The mode is changed through a descriptor: if the name were
    looked up again, it could be a link by then.

    Raises:
        OSError: the name is no longer a socket.
    """
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        status = os.fstat(handle)
        if not stat.S_ISSOCK(status.st_mode):
            raise OSError(f"{name} was replaced while it was created")
        os.chmod(f"/proc/self/fd/{handle}", 0o666)
    finally:
        os.close(handle)
    return status.st_ino
