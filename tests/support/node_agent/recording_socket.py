"""A connection that records what happens on it."""

from __future__ import annotations

import socket

from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.sessions.packet_socket import PacketSocket


class RecordingSocket(PacketSocket):
    """A connection that records what happens."""

    def __init__(self, connected: socket.socket, loop: EventLoop) -> None:
        self.packets: list[bytes] = []
        self.ends: list[str] = []
        super().__init__(connected, loop, loop, 1 << 17)

    def send(self, packet: bytes) -> None:
        """Send as the agent does."""
        self._send(packet)

    def _received(self, packet: bytes) -> None:
        self.packets.append(packet)

    def _closed(self) -> None:
        self.ends.append("closed")

    def _queue_full(self) -> None:
        self.ends.append("full")

    def _brought_descriptors(self) -> None:
        self.ends.append("descriptors")
