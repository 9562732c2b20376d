"""A connection to the agent that speaks its protocol only as far as an attack needs it."""

from __future__ import annotations

import array
import json
import mmap
import os
import socket
import time
from collections.abc import Callable
from typing import Any

SOCKET = "/run/laneway/agent.sock"
WORD_MOST = 2**64 - 1
BYTES_MOST = 2**50
PROFILE = {
    "type": "profile",
    "persistent_bytes": 1 << 20,
    "ephemeral_bytes": 1 << 20,
    "framework_bytes": 0,
    "iteration_seconds": 0.01,
    "iterations": 5,
    "largest_tensor_bytes": 1,
    "model_bytes": 1,
}


class CutOffError(Exception):
    """The agent does not take the connection, or has ended it."""


class AgentConnection:
    """One connection, with the shared page once the agent has sent its welcome."""

    def __init__(self, wait_seconds: float = 30.0, path: str = SOCKET) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(wait_seconds)
        self.page: memoryview | None = None
        try:
            self.socket.connect(path)
        except OSError as error:
            self.socket.close()
            raise CutOffError from error

    def send(self, packet: dict[str, Any] | bytes) -> None:
        try:
            self.socket.send(packet if isinstance(packet, bytes) else json.dumps(packet).encode())
        except OSError as error:
            raise CutOffError from error

    def receive(self) -> dict[str, Any]:
        descriptors = array.array("i")
        try:
            data, ancillary, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(4))
        except OSError as error:
            raise CutOffError from error
        if not data:
            raise CutOffError
        for _, _, payload in ancillary:
            descriptors.frombytes(payload)
        for descriptor in descriptors:
            self.page = memoryview(mmap.mmap(descriptor, 4096)).cast("Q")
            os.close(descriptor)
        packet: dict[str, Any] = json.loads(data)
        return packet

    def hello(self, **fields: Any) -> memoryview:
        self.send(
            {
                "type": "hello",
                "version": 1,
                "pid": 1,
                "framework": "",
                "device": "cpu",
                "gpu": None,
                **fields,
            }
        )
        packet = self.receive()
        if packet["type"] != "welcome" or self.page is None:
            raise CutOffError
        return self.page

    def await_packet(self, kind: str) -> dict[str, Any]:
        while True:
            packet = self.receive()
            if packet["type"] == kind:
                return packet

    def close(self) -> None:
        self.socket.close()


def repeat(seconds: float, attack: Callable[[AgentConnection], int], greets: bool = True) -> dict[str, Any]:
    """Repeat an attack, and reconnect whenever the agent ends the connection. Without `greets`, each attack has a new connection."""
    done = cut_off = 0
    until = time.monotonic() + seconds
    agent: AgentConnection | None = None
    while time.monotonic() < until:
        try:
            if agent is None:
                agent = AgentConnection(max(0.01, min(2.0, until - time.monotonic())))
                if greets:
                    agent.hello()
            done += attack(agent)
        except CutOffError:
            cut_off += 1
            if agent is not None:
                agent.close()
                agent = None
        if agent is not None and not greets:
            agent.close()
            agent = None
    if agent is not None:
        agent.close()
    return {"done": done, "cut_off": cut_off}
