"""A fake agent: the other end of the socket, which sends only what a test tells it to."""

from __future__ import annotations

import array
import json
import mmap
import os
import queue
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from laneway.node_agent.sessions.wake_pipe import WakePipe

PAGE_BYTES = 4096
TIMEOUT_SECONDS = 60.0

TURN, YIELD, PAUSED, ITERATIONS, INSIDE, HELD_BYTES, BUSY_NS = 1, 2, 3, 8, 9, 11, 13
SUCCESSOR, ARMED_TURN, ARMED_WAKE, TAKEN, KEEPS_MEMORY, KEPT_MEMORY = 5, 6, 7, 15, 16, 24


class Connection:
    """One client's session, as the agent sees it."""

    def __init__(self, connected: socket.socket, quota_bytes: int, can: dict[str, bool]) -> None:
        self._socket = connected
        self._quota_bytes = quota_bytes
        self._can = can
        self.answers = True
        """Whether pings are answered."""
        self.pings = 0
        self.hello: dict[str, Any] = {}
        self.received: queue.Queue[dict[str, Any]] = queue.Queue()
        self.welcomed = threading.Event()
        self.ended = threading.Event()
        self.granted = 0
        descriptor = os.memfd_create("page")
        os.truncate(descriptor, PAGE_BYTES)
        self.words = memoryview(mmap.mmap(descriptor, PAGE_BYTES)).cast("Q")
        self.words[0] = int.from_bytes(b"LANEWAY1", "little")
        self._descriptor = descriptor

    def serve(self, greet: bool) -> None:
        """Answers hello, then collects the client's messages."""
        try:
            self.hello = json.loads(self._socket.recv(65536))
            if greet:
                self._greet()
            while packet := self._socket.recv(65536):
                self._take(json.loads(packet))
        except (OSError, ValueError):
            pass
        finally:
            self._socket.close()
            self.ended.set()

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] != "ping":
            self.received.put(message)
            return
        self.pings += 1
        if self.answers:
            self.send("pong")

    def _greet(self) -> None:
        welcome = {
            "type": "welcome",
            "session": "s-1",
            "gpu": "GPU-test",
            "quota_bytes": self._quota_bytes,
            "quantum_seconds": 0.1,
            "enforcement": "Cooperative",
            "simulated": True,
            "profile": None,
            **self._can,
        }
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self._descriptor]))]
        self._socket.sendmsg([json.dumps(welcome).encode()], rights)
        os.close(self._descriptor)
        self.welcomed.set()

    def send(self, kind: str, **fields: Any) -> None:
        """Sends a message without side effects."""
        self._socket.send(json.dumps({"type": kind, **fields}).encode())

    def send_raw(self, packet: bytes) -> None:
        """Sends a packet that need not be a message."""
        self._socket.send(packet)

    def grant(self) -> int:
        """Grants the next turn; returns its number."""
        self.granted += 1
        self.words[YIELD] = 0
        self.words[TURN] = self.granted
        self.send("grant", turn=self.granted)
        return self.granted

    def share_wake(self, wake: int, *, signals: bool) -> int:
        """Gives the client a wake; returns the other process's descriptor of it, which the caller closes."""
        ends = WakePipe.create()
        own, other = (ends.signalled, ends.awaited) if signals else (ends.awaited, ends.signalled)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [own]))]
        packet = json.dumps({"type": "wake", "wake": wake, "signals": signals}).encode()
        self._socket.sendmsg([packet], rights)
        os.close(own)
        return other

    def ask_back(self, *, page_only: bool = False) -> None:
        """Requests the turn back."""
        self.words[YIELD] = 1
        if not page_only:
            self.send("yield", turn=self.granted)

    def revoke(self, turn: int | None = None) -> None:
        """Revokes the turn; 0 stands for whichever turn the client holds."""
        self.words[TURN] = 0
        self.words[YIELD] = 0 if turn == 0 else 1
        self.send("revoke", turn=self.granted if turn is None else turn, reason="test")

    def pause(self) -> None:
        """Requests a pause."""
        self.words[PAUSED] = 1
        self.send("pause")

    def resume(self) -> None:
        """Ends the pause."""
        self.words[PAUSED] = 0
        self.send("resume")

    def expect(self, kind: str) -> dict[str, Any]:
        """Returns the next message, which must be of this kind."""
        message = self.received.get(timeout=TIMEOUT_SECONDS)
        assert message["type"] == kind, f"expected {kind}, got {message}"
        return message

    def expect_all(self, *kinds: str) -> None:
        """Checks that the next messages are of these kinds; two threads may send them in any order."""
        found = [self.received.get(timeout=TIMEOUT_SECONDS)["type"] for _ in kinds]
        assert sorted(found) == sorted(kinds)

    def expect_nothing(self) -> None:
        """Checks that no message has come."""
        assert self.received.empty(), f"unexpected: {self.received.get()}"

    def cut(self) -> None:
        """Cuts the connection, as the death of the agent does."""
        self._socket.shutdown(socket.SHUT_RDWR)


class FakeAgent:
    """Listens at `agent.sock` in a folder."""

    def __init__(self, folder: Path, quota_bytes: int = 1 << 30, greet: bool = True) -> None:
        self.path = folder / "agent.sock"
        self._quota_bytes = quota_bytes
        self.release_again = False
        """Sent in the welcome: whether a release may also request the next turn."""
        self.answers_ping = False
        """Sent in the welcome: whether pings are answered."""
        self.greets = greet
        self._connections: queue.Queue[Connection] = queue.Queue()
        self._all: list[Connection] = []
        self._ended = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(str(self.path))
        self._socket.listen()
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._socket.accept()
            except OSError:
                return
            self.accepted += 1
            can = {"release_again": self.release_again, "answers_ping": self.answers_ping}
            connection = Connection(connected, self._quota_bytes, can)
            self._all.append(connection)
            if self._ended:
                connection.cut()
            threading.Thread(target=connection.serve, args=(self.greets,), daemon=True).start()
            self._connections.put(connection)

    def connection(self) -> Connection:
        """Returns the next client's connection."""
        return self._connections.get(timeout=TIMEOUT_SECONDS)

    def close(self) -> None:
        """Stops listening and removes the socket's file, as when an agent is replaced."""
        if self._socket.fileno() != -1:
            self.path.unlink(missing_ok=True)
            self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()

    def end(self) -> None:
        """Stops listening and cuts the connections that wait for its welcome, which would do so beyond the test."""
        self._ended = True
        self.close()
        for connection in list(self._all):
            if not connection.welcomed.is_set():
                with suppress(OSError):
                    connection.cut()
