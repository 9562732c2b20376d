"""A process that attacks the agent's HTTP port: ``python http_attacker.py PORT ATTACK ADDRESSES SECONDS``.

It uses a number of addresses of the loopback network, each a separate client to the agent. It prints a line
when it has started, and its results as JSON at the end.
"""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import sys
import time
from contextlib import suppress

WHOLE = b"GET %s HTTP/1.1\r\nHost: node\r\n\r\n"
SOCKETS = 10_000


class Attacker:
    def __init__(self, port: int, addresses: int, seconds: float) -> None:
        self.port = port
        self.sources = [f"127.0.0.{2 + number}" for number in range(addresses)]
        self.until = time.monotonic() + seconds
        self.connections: list[socket.socket] = []
        self.connected = 0
        self.answered = 0

    def open(self) -> socket.socket:
        connection = socket.socket()
        connection.bind((self.sources[self.connected % len(self.sources)], 0))
        connection.setblocking(False)
        connection.connect_ex(("127.0.0.1", self.port))
        self.connected += 1
        return connection

    def slow_loris(self) -> None:
        """A byte of a request at intervals, over thousands of connections."""
        self.connections = [self.open() for _ in range(SOCKETS)]
        sent = 0
        while time.monotonic() < self.until:
            for number, connection in enumerate(self.connections):
                try:
                    connection.send(b"GET /metrics HTTP/1.1\r\nX: "[sent : sent + 1] or b"x")
                except BlockingIOError:
                    continue
                except OSError:
                    connection.close()
                    self.connections[number] = self.open()
                if time.monotonic() > self.until:
                    return
            sent += 1

    def many(self) -> None:
        """Connections without a request."""
        while time.monotonic() < self.until:
            if len(self.connections) >= SOCKETS:
                self.connections.pop(0).close()
            self.connections.append(self.open())

    def _again_and_again(self, request: bytes, at_a_time: int) -> None:
        while time.monotonic() < self.until:
            while len(self.connections) < at_a_time:
                self.connections.append(self.open())
            _, writable, _ = select.select([], self.connections, [], 0.1)
            for connection in writable:
                with suppress(OSError):
                    connection.send(request)
            readable, _, _ = select.select(self.connections, [], [], 0.1)
            for connection in readable:
                try:
                    data = connection.recv(1 << 20)
                except OSError:
                    data = b""
                self.answered += data.startswith(b"HTTP/1.1 200")
                if not data:
                    connection.close()
                    self.connections.remove(connection)

    def scrapes(self) -> None:
        """Endless scrapes over persistent connections."""
        self._again_and_again(WHOLE % b"/metrics" + WHOLE % b"/turns", 64)

    def long_requests(self) -> None:
        """Requests as long as the socket accepts."""
        self._again_and_again(WHOLE % (b"/" + b"x" * 60_000) + b"X: y\r\n" * 10_000, 64)

    def compute(self) -> None:
        """No attack: what a process costs others by computing."""
        while time.monotonic() < self.until:
            pass

    def deaf(self) -> None:
        """Requests whose answers are never read."""
        for _ in range(64):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            connection.bind((self.sources[self.connected % len(self.sources)], 0))
            self.connected += 1
            try:
                connection.connect(("127.0.0.1", self.port))
                connection.send((WHOLE % b"/turns") * 50)
            except OSError:
                connection.close()
            self.connections.append(connection)
        time.sleep(max(0.0, self.until - time.monotonic()))


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    port, attack, addresses, seconds = sys.argv[1:]
    os.nice(10)
    attacker = Attacker(int(port), int(addresses), float(seconds))
    print("ready", flush=True)
    getattr(attacker, attack)()
    print(json.dumps({"connected": attacker.connected, "answered": attacker.answered}), flush=True)


if __name__ == "__main__":
    main()
