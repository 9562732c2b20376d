"""The agent's side of the account socket, as a peer for tests of the interposer: docs/contracts.md, "Account".

It keeps one container's account by the contract's rules, and can be stopped, silenced and started again.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

RESERVE, RELEASE, HELD, QUERY = 1, 2, 3, 4
GRANTED, REFUSED, NO_SUCH_GPU = 0, 1, 2
_REQUEST = struct.Struct("<II16sQQ")
_REPLY = struct.Struct("<IIQQQQ")


@dataclass
class AccountServer:
    """Serves `account.sock` in `folder` for a container with `quotas` (bytes by a GPU's 16 bytes)."""

    folder: Path
    quotas: dict[bytes, int]
    requests: list[tuple[int, int]] = field(default_factory=list)
    """Kind and bytes of each request, in order of arrival."""
    silent: threading.Event = field(default_factory=threading.Event)
    """While it is set, requests are read and not answered."""
    accepted: int = 0
    """Connections until now."""
    malformed: int = 0
    """Connections that were closed because of a malformed packet."""
    highest: int = 0
    """The most bytes that the account ever had on one GPU."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[socket.socket, dict[bytes, int]] = {}
        self._listener: socket.socket | None = None
        self._running = threading.Event()
        self._running.set()

    def start(self) -> None:
        path = self.folder / "account.sock"
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop(self) -> None:
        """As a killed agent: its socket and all connections are closed."""
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        with self._lock:
            for connection in self._held:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """As a stopped process: while the block runs, nothing is read or accepted."""
        with self._lock:
            self._running.clear()
        yield
        self._running.set()

    def used(self, gpu: bytes) -> int:
        """Bytes in the account, after all that the programs have sent until now."""
        while True:
            with self._lock:
                if not any(select.select([connection], [], [], 0)[0] for connection in self._held):
                    return self._used(gpu)
            time.sleep(0.001)

    @property
    def connections(self) -> int:
        with self._lock:
            return len(self._held)

    def _used(self, gpu: bytes) -> int:
        return sum(held.get(gpu, 0) for held in self._held.values())

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._running.wait()
            with self._lock:
                self._held[connection] = {}
                self.accepted += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            # A packet leaves the queue only once it is in the account, for `used`.
            while connection.recv(1, socket.MSG_PEEK):
                self._running.wait()
                with self._lock:
                    reply = self._take(connection)
                if reply is not None and not self.silent.is_set():
                    connection.sendall(reply)
        with self._lock:
            del self._held[connection]
            connection.close()

    def _take(self, connection: socket.socket) -> bytes | None:
        packet = connection.recv(4096)
        if len(packet) == _REQUEST.size:
            version, kind, gpu, size, sequence = _REQUEST.unpack(packet)
            if version == 1 and kind in (RESERVE, RELEASE, HELD, QUERY):
                return self._apply(connection, kind, gpu, size, sequence)
        self.malformed += 1
        raise ConnectionAbortedError

    def _apply(
        self, connection: socket.socket, kind: int, gpu: bytes, size: int, sequence: int
    ) -> bytes | None:
        self.requests.append((kind, size))
        held, quota = self._held[connection], self.quotas.get(gpu)
        status = GRANTED if quota is not None else NO_SUCH_GPU
        if kind == RESERVE and quota is not None:
            if self._used(gpu) + size <= quota:
                held[gpu] = held.get(gpu, 0) + size
            else:
                status = REFUSED
        elif kind == RELEASE:
            held[gpu] = max(0, held.get(gpu, 0) - size)
        elif kind == HELD:
            held[gpu] = size
        self.highest = max(self.highest, self._used(gpu))
        if kind in (RELEASE, HELD):
            return None
        return _REPLY.pack(1, status, self._used(gpu), quota or 0, held.get(gpu, 0), sequence)
