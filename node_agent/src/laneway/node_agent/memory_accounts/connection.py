"""The connection of one process to its container's memory accounts."""

from __future__ import annotations

import socket
from typing import Protocol

from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.memory_accounts.packets import (
    AccountPacketError,
    Reply,
    Request,
    decode_request,
    encode_reply,
)
from laneway.node_agent.rate_limited_log import RateLimitedLog
from laneway.node_agent.sessions.identity import Peer
from laneway.node_agent.sessions.packet_socket import PacketSocket, Readers


class RequestHandler(Protocol):
    """Handles what arrives over a connection."""

    def received(self, connection: AccountConnection, request: Request) -> Reply | None:
        """Handle a request, and return the reply if it gets one."""
        ...

    def closed(self, connection: AccountConnection) -> None:
        """Handle the end of the connection."""
        ...


class AccountConnection(PacketSocket):
    """Answers one process's requests."""

    def __init__(
        self,
        connected: socket.socket,
        peer: Peer,
        handler: RequestHandler,
        readers: Readers,
        loop: EventLoop,
        queue_bytes: int,
        log: RateLimitedLog,
        name: str,
    ) -> None:
        self.pid = peer.pid
        self._handler = handler
        self._log = log
        self._name = name
        super().__init__(connected, readers, loop, queue_bytes)

    def _received(self, packet: bytes) -> None:
        try:
            reply = self._handler.received(self, decode_request(packet))
        except AccountPacketError as error:
            self._log.warning(
                "protocol error",
                f"account connection closed container={self._name} pid={self.pid} reason={str(error)!r}",
            )
            self.close()
            return
        except Exception:
            # A packet that makes the agent fail must not do so again over the same connection.
            self._log.warning("fault", f"request handling failed container={self._name}", traceback=True)
            self.close()
            return
        if reply is not None:
            self._send(encode_reply(reply))

    def _closed(self) -> None:
        self._handler.closed(self)

    def _brought_descriptors(self) -> None:
        self._log.warning(
            "descriptors", f"account connection with descriptors closed container={self._name} pid={self.pid}"
        )

    def _queue_full(self) -> None:
        self._log.warning(
            "full", f"process does not read its account's replies container={self._name} pid={self.pid}"
        )
