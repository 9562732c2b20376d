"""Attacks with connections: too many, for another process, or over a socket of another container."""

from __future__ import annotations

import ctypes
import json
import os
import select
import socket
from typing import Any

from hostile.agent_connection import SOCKET, AgentConnection, CutOffError, repeat


class ConnectionAttacks:
    kept: list[Any]
    children: list[int]
    taken: socket.socket

    def connect_and_close(self, seconds: float) -> dict[str, Any]:
        """Connections that end at once."""

        def attack(agent: AgentConnection) -> int:
            agent.close()
            return 1

        return repeat(seconds, attack, greets=False)

    def hoard(self, count: int) -> dict[str, Any]:
        """Open connections, send nothing, and keep the accepted ones; does not wait if the queue is full."""
        refused = 0
        for _ in range(count):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
            try:
                connection.connect(SOCKET)
            except OSError:
                refused += 1
                connection.close()
            else:
                self.kept.append(connection)
        return {"opened": count - refused, "refused": refused}

    def reconnect_as_holder(self, seconds: float) -> dict[str, Any]:
        """Sessions that claim to hold a turn of an earlier connection."""
        granted = 0

        def attack(agent: AgentConnection) -> int:
            nonlocal granted
            agent.hello(holds_turn=True)
            granted += agent.receive()["type"] == "grant"
            return 1

        return {**repeat(seconds, attack, greets=False), "granted": granted}

    def fork_sessions(
        self, count: int, stays_connected: bool = False, pid_namespace: bool = False
    ) -> dict[str, Any]:
        """Processes that open a session each and stay alive; returns how many succeeded within their time
        limit."""
        let_in = 0
        if pid_namespace:
            assert ctypes.CDLL(None).unshare(0x20000000) == 0, "CLONE_NEWPID"
        for _ in range(count):
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(read)
                os.write(write, b"y" if self._open_one(stays_connected) else b"n")
                os.close(write)
                select.select([], [], [], 600)
                os._exit(0)
            os.close(write)
            self.children.append(child)
            let_in += os.read(read, 1) == b"y"
            os.close(read)
        return {"let_in": let_in}

    def end_children(self) -> dict[str, Any]:
        for child in self.children:
            os.kill(child, 9)
        for child in self.children:
            os.waitpid(child, 0)
        self.children.clear()
        return {}

    def leave(self) -> dict[str, Any]:
        """Close what was kept."""
        for each in self.kept:
            each.close()
        self.kept.clear()
        return {}

    def connect_and_leave_it_to_a_child(self, name: str) -> dict[str, Any]:
        """Connect to a socket and end; a child keeps the connection open."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(f"/run/laneway/{name}")
        if os.fork():
            print(json.dumps({}), flush=True)
            os._exit(0)
        for descriptor in (0, 1):
            os.close(descriptor)
        select.select([], [], [], 600)
        os._exit(0)

    def refusal(self, name: str) -> dict[str, Any]:
        """Return the packet that a new client of a socket gets."""
        agent = AgentConnection(path=f"/run/laneway/{name}")
        return agent.receive()

    def hand_over(self, address: str) -> dict[str, Any]:
        """Open a session, and give the connection to each process that asks at an address outside the container."""
        agent = AgentConnection()
        agent.hello()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{address}.new")
            listener.listen(1)
            os.rename(f"{address}.new", address)  # who finds it can connect
            taker, _ = listener.accept()
            with taker:
                socket.send_fds(taker, [b"!"], [agent.socket.fileno()])
        self.kept.append(agent)
        return {}

    def take_over(self, address: str) -> dict[str, Any]:
        """Take a connection that another process hands over, and a turn over it."""
        with socket.socket(socket.AF_UNIX) as receiver:
            receiver.connect(address)
            _, descriptors, _, _ = socket.recv_fds(receiver, 1, 1)
        self.taken = socket.socket(fileno=descriptors[0])
        self.taken.settimeout(20)
        self.taken.send(b'{"type":"request"}')
        return {"packet": json.loads(self.taken.recv(65536))}

    def rest_of_what_was_taken(self) -> dict[str, Any]:
        """Read on until the connection is over."""
        packets = []
        while data := self._next_of(self.taken):
            packets.append(json.loads(data)["type"])
        return {"packets": packets}

    def become(self, uid: int) -> dict[str, Any]:
        """Give up root."""
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        return {}

    @staticmethod
    def _next_of(connection: socket.socket) -> bytes:
        try:
            return connection.recv(65536)
        except OSError:
            return b""

    def _open_one(self, stays_connected: bool) -> bool:
        try:
            agent = AgentConnection()
            agent.hello()
        except CutOffError:
            return False
        if stays_connected:
            self.kept.append(agent)
        else:
            agent.close()
        return True
