"""A process in a container that speaks the account socket's packets as the interposer does, driven line by line like
`peer_process.py`. It rests on nothing of Laneway."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import time
import uuid
from typing import Any

from tests.support.node_agent.command_loop import answer_commands

SOCKET = "/run/laneway/account.sock"
REQUEST, REPLY = struct.Struct("<II16sQQ"), struct.Struct("<IIQQQQ")
RESERVE, RELEASE, HELD, QUERY = 1, 2, 3, 4


class Account:
    def __init__(self) -> None:
        self.connections: dict[int, socket.socket] = {}
        self.sequence = 0

    def open(self, n: int = 0, path: str = SOCKET, wait_seconds: float = 60.0) -> dict[str, Any]:
        until = time.monotonic() + wait_seconds
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                connection.connect(path)
            except OSError as error:
                connection.close()
                if time.monotonic() > until:
                    return {"failed": str(error)}
                time.sleep(0.02)
            else:
                self.connections[n] = connection
                return {}

    def ask(self, kind: int, gpu: str, size: int = 0, n: int = 0) -> dict[str, Any]:
        """Send a request; a reservation and a query have a reply."""
        self.sequence += 1
        raw = uuid.UUID(gpu.removeprefix("GPU-")).bytes
        try:
            self.connections[n].send(REQUEST.pack(1, kind, raw, size, self.sequence))
            if kind not in (RESERVE, QUERY):
                return {}
            packet = self.connections[n].recv(64)
        except OSError as error:
            return {"closed": str(error)}
        if not packet:
            return {"closed": ""}
        version, status, used, quota, part, sequence = REPLY.unpack(packet)
        assert (version, sequence) == (1, self.sequence)
        return {"status": status, "used": used, "quota": quota, "part": part}

    def ended(self, n: int = 0) -> dict[str, Any]:
        """Wait until the agent closes the connection."""
        self.connections[n].settimeout(60)
        try:
            return {"ended": self.connections[n].recv(64) == b""}
        except ConnectionResetError:
            return {"ended": True}

    def send_raw(self, text: str, n: int = 0) -> dict[str, Any]:
        self.connections[n].send(text.encode("latin-1"))
        return {}

    def close(self, n: int = 0) -> dict[str, Any]:
        self.connections.pop(n).close()
        return {}

    def fork_with_connection(self) -> dict[str, Any]:
        """Leave a child behind that holds the connection open and says nothing."""
        child = os.fork()
        if child == 0:
            os.close(0)
            os.close(1)
            select.select([], [], [], 120)
            os._exit(0)
        return {"child": child}

    def fork_with_account(self, gpu: str, size: int) -> dict[str, Any]:
        """A child that closes what it inherited and opens an account of its own; it lives until its parent ends."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            for connection in self.connections.values():
                connection.close()
            self.connections = {}
            self.open()
            os.write(write, json.dumps(self.ask(RESERVE, gpu, size)).encode())
            os.close(0)
            os.close(1)
            select.select([], [], [], 120)
            os._exit(0)
        answer: dict[str, Any] = json.loads(os.read(read, 4096))
        return {"child": child, "pid": child, **answer}

    def flood(self, gpu: str, seconds: float, processes: int) -> dict[str, Any]:
        """Reserve and release as fast as possible, in several processes."""
        children = []
        for _ in range(processes):
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                done = self._flood(gpu, seconds)
                os.write(write, str(done).encode())
                os._exit(0)
            children.append((child, read))
        done = 0
        for child, read in children:
            os.waitpid(child, 0)
            done += int(os.read(read, 64))
        return {"done": done}

    def _flood(self, gpu: str, seconds: float) -> int:
        self.connections = {}
        self.open()
        raw = uuid.UUID(gpu.removeprefix("GPU-")).bytes
        until, done = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            for _ in range(50):  # releases have no reply, so they fill the socket
                self.connections[0].send(REQUEST.pack(1, RELEASE, raw, 1, 0))
            done += 50
        return done


if __name__ == "__main__":
    answer_commands(Account())
