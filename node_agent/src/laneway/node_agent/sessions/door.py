"""The socket of one container: who comes through is looked at before a byte of theirs is read."""

from __future__ import annotations

import logging
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from laneway.api.container_record import ContainerRecord
from laneway.api.names import SOCKET_NAME
from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.quiet_log import QuietLog
from laneway.node_agent.sessions.allowance import Allowance
from laneway.node_agent.sessions.connection import Connection, Receiver
from laneway.node_agent.sessions.identity import StrangerError, identify
from laneway.node_agent.sessions.limits import Limits
from laneway.node_agent.sessions.packets import encode

_log = logging.getLogger(__name__)
REOPEN_SECONDS = 0.5


class Door:
    """Listens in a container's folder and lets the container's own processes in."""

    def __init__(
        self,
        folder: Path,
        record: ContainerRecord,
        receiver: Receiver,
        loop: EventLoop,
        clock: Clock,
        limits: Limits,
        most_processes: Callable[[], int],
    ) -> None:
        """Open the socket.

        Args:
            folder: the container's.
            record: who the container is.
            receiver: who deals with what comes in.
            loop: the thread.
            clock: its clock.
            limits: bounds on the container.
            most_processes: returns how many of its processes may be connected now; it depends on how many containers there are.

        Raises:
            OSError: the folder is gone or cannot be written to.
        """
        self.folder = folder
        self.record = record
        self.connections: set[Connection] = set()
        self.most_processes = most_processes
        self.profiles = Allowance(limits.profiles_at_once, limits.profiles_per_second, clock)
        self._receiver = receiver
        self._loop = loop
        self._clock = clock
        self._limits = limits
        self._quiet = QuietLog(_log, clock)
        self._accepts = Allowance(limits.accepts_at_once, limits.accepts_per_second, clock)
        self._packets = Allowance(limits.packets_at_once, limits.packets_per_second, clock)
        self._missing_since_seconds: float | None = None
        self._listener, self._inode = self._listen()
        loop.add_reader(self._listener.fileno(), self._accept)

    @property
    def who(self) -> str:
        """Return the container's name for messages."""
        return f"{self.record.namespace}/{self.record.pod}/{self.record.container}"

    def look_after(self) -> None:
        """Listen anew where the socket was taken away; connections stay.

        Not at once: who removes the folder removes the socket first, and must not find another one in it.

        Raises:
            OSError: the folder is gone or cannot be written to.
        """
        self._quiet.tell_left_out()
        if self._is_in_place():
            self._missing_since_seconds = None
            return
        now_seconds = self._clock.monotonic()
        if self._missing_since_seconds is None:
            self._missing_since_seconds = now_seconds
        if now_seconds - self._missing_since_seconds < REOPEN_SECONDS:
            return
        self._stop_listening()
        self._listener, self._inode = self._listen()
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def _is_in_place(self) -> bool:
        try:
            return (self.folder / SOCKET_NAME).lstat().st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        """Close the socket and all connections."""
        self._stop_listening()
        with suppress(OSError):
            if self._is_in_place():
                (self.folder / SOCKET_NAME).unlink()
        for connection in tuple(self.connections):
            connection.close()

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is over."""
        self.connections.discard(connection)

    def _listen(self) -> tuple[socket.socket, int]:
        """Bind under another name and rename: whoever finds the socket can connect to it.

        The path goes through a descriptor of the folder, because a socket's path has at most 107 bytes.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        directory = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        temporary = f".{SOCKET_NAME}.{os.getpid()}"
        try:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
            listener.bind(f"/proc/self/fd/{directory}/{temporary}")
            inode = _let_everybody_write(temporary, directory)
            listener.setblocking(False)
            listener.listen(16)
            os.replace(temporary, SOCKET_NAME, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            listener.close()
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
        finally:
            os.close(directory)
        return listener, inode

    def _stop_listening(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()

    def _accept(self) -> None:
        if not self._accepts.take():
            self._rest()
            return
        try:
            connected, _ = self._listener.accept()
        except OSError as error:
            if not isinstance(error, BlockingIOError | InterruptedError):
                self._quiet.warning("accept", f"{self.who}: a connection could not be taken: {error}")
            return
        most = self.most_processes()
        if len(self.connections) >= most:
            self._turn_away(connected, f"the container has {most} connections already, and gets no more")
            return
        try:
            peer, pidfd = identify(connected, self.record, self.folder)
        except StrangerError as error:
            self._turn_away(connected, str(error))
            return
        connection = Connection(
            connected,
            peer,
            pidfd,
            self._receiver,
            self._loop,
            self._clock,
            self._limits,
            self._packets,
            self._quiet,
            self.who,
        )
        self.connections.add(connection)

    def _turn_away(self, connected: socket.socket, reason: str) -> None:
        self._quiet.warning("turned away", f"{self.who}: a connection is turned away: {reason}")
        with suppress(OSError):
            connected.send(encode("error", reason=reason), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        connected.close()

    def _rest(self) -> None:
        """Leave a container that connects too often to its own queue for a while."""
        self._quiet.warning(
            "too fast",
            f"{self.who}: connects too often; of its queue, {self._limits.accepts_per_second} a second are taken",
        )
        listener = self._listener
        self._loop.remove_reader(listener.fileno())

        def again() -> None:
            if listener.fileno() >= 0:
                self._loop.add_reader(listener.fileno(), self._accept)

        self._loop.call_at(self._clock.monotonic() + self._accepts.seconds_until(), again)


def _let_everybody_write(name: str, directory: int) -> int:
    """Allow connecting to a socket, which takes the right to write, and return its inode.

    The folder is mounted into this container only. The file is changed through a descriptor: were its name looked up again,
    it could be a link by then.

    Raises:
        OSError: the name is no socket any more.
    """
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        status = os.fstat(handle)
        if not stat.S_ISSOCK(status.st_mode):
            raise OSError(f"{name} was replaced while it was made")
        os.chmod(f"/proc/self/fd/{handle}", 0o666)
    finally:
        os.close(handle)
    return status.st_ino
