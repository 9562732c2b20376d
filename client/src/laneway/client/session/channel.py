"""Packets to and from the agent: one JSON object each, over a Unix SEQPACKET socket (docs/contracts.md,
"Session").

The kernel preserves packet boundaries, so a message is never received in part, and concurrent sends do not
mix.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import time
from contextlib import suppress
from typing import Any, Final, Optional

MAX_PACKET_BYTES: Final = 65_536
SEND_TIMEOUT_SECONDS: Final = 5.0
"""How long the agent may leave packets unread before it counts as dead."""

ANCILLARY_BYTES: Final = socket.CMSG_SPACE(4 * array.array("i").itemsize)
"""Room for the descriptors that come with a packet."""

GRANT_PREFIX: Final = b'{"type":"grant","turn":'
"""The prefix of a grant as the agent writes it. Grants are on the hot path, so this form bypasses the JSON
parser."""


class ChannelClosedError(Exception):
    """The connection has ended, or the received packet is invalid; the message says why."""


def encode(kind: str, **fields: Any) -> bytes:
    """Returns the packet of a message."""
    return json.dumps({"type": kind, **fields}, separators=(",", ":")).encode()


def encode_release(turn: int, iterations: int, gpu_seconds: float, again: bool) -> bytes:
    """Returns the packet of a release. Another job waits for it, so it bypasses the JSON encoder."""
    packet = b'{"type":"release","turn":%d,"iterations":%d,"gpu_seconds":%.9f%b}'
    return packet % (turn, iterations, gpu_seconds, b',"again":true' if again else b"")


class Channel:
    """One connection. `send` may be called from any thread, `receive` from one thread at a time."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._buffer = bytearray(MAX_PACKET_BYTES)
        self._view = memoryview(self._buffer)

    @classmethod
    def connect(cls, path: str, timeout_seconds: float) -> Channel:
        """Connects to the agent.

        Raises:
            OSError: the socket does not exist, nobody listens, or the connection was not accepted in time.
        """
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            connected.settimeout(timeout_seconds)
            connected.connect(path)
        except BaseException:
            connected.close()
            raise
        return cls(connected)

    def fileno(self) -> int:
        """Returns the descriptor to poll, or -1 once closed."""
        return self._socket.fileno()

    def send(self, packet: bytes) -> None:
        """Sends one packet.

        Raises:
            ChannelClosedError: the agent is gone, or has not read for `SEND_TIMEOUT_SECONDS`.
        """
        until = 0.0
        while True:
            try:
                self._socket.send(packet, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                until = until or time.monotonic() + SEND_TIMEOUT_SECONDS
                if not self._wait(select.POLLOUT, until):
                    raise ChannelClosedError("the agent does not read") from None
            except OSError as error:
                raise ChannelClosedError(f"sending failed: {error.strerror}") from error
            else:
                return

    def receive(self) -> Optional[dict[str, Any]]:
        """Returns the next message, or None when there is none at the moment.

        A descriptor that came with it is its field `descriptor`, which the receiver closes.

        Raises:
            ChannelClosedError: the connection has ended, or the packet is not a JSON object with a string
                `type`.
        """
        try:
            length, ancillary, _flags, _address = self._socket.recvmsg_into(
                [self._buffer], ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return None
        except OSError as error:
            raise ChannelClosedError(f"receiving failed: {error.strerror}") from error
        if not ancillary:
            return _decode(self._view[:length])
        descriptor = _first_descriptor(ancillary)
        try:
            return {**_decode(self._view[:length]), "descriptor": descriptor}
        except ChannelClosedError:
            _close(descriptor)
            raise

    def receive_first(self, timeout_seconds: float) -> tuple[dict[str, Any], Optional[int]]:
        """Returns the first message and the descriptor sent with it. The caller closes the descriptor.

        Raises:
            ChannelClosedError: the connection has ended, nothing came in time, or the packet is invalid.
        """
        if not self._wait(select.POLLIN, time.monotonic() + timeout_seconds):
            raise ChannelClosedError(f"no answer within {timeout_seconds:g} s")
        try:
            data, ancillary, _flags, _address = self._socket.recvmsg(
                MAX_PACKET_BYTES, ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
            )
        except OSError as error:
            raise ChannelClosedError(f"receiving failed: {error.strerror}") from error
        descriptor = _first_descriptor(ancillary)
        try:
            return _decode(memoryview(data)), descriptor
        except ChannelClosedError:
            _close(descriptor)
            raise

    def close(self) -> None:
        """Ends the connection for both sides and wakes every thread that polls it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def forget(self) -> None:
        """Closes only this process's copy of the socket, as a forked child has to."""
        self._socket.close()

    def _wait(self, event: int, until: float) -> bool:
        try:
            poller = select.poll()
            poller.register(self._socket, event)
            return bool(poller.poll(max(0.0, until - time.monotonic()) * 1000))
        except (OSError, ValueError) as error:
            raise ChannelClosedError(f"the connection is closed: {error}") from error


def _first_descriptor(ancillary: list[tuple[int, int, bytes]]) -> Optional[int]:
    """Returns the first of the descriptors that came with a packet, and closes the others."""
    descriptors = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
    for surplus in descriptors[1:]:
        os.close(surplus)
    return descriptors[0] if descriptors else None


def _close(descriptor: Optional[int]) -> None:
    if descriptor is not None:
        os.close(descriptor)


def _decode(packet: memoryview) -> dict[str, Any]:
    data = bytes(packet)
    if not data:
        raise ChannelClosedError("the agent closed the connection")
    if data.startswith(GRANT_PREFIX) and data[len(GRANT_PREFIX) : -1].isdigit():
        return {"type": "grant", "turn": int(data[len(GRANT_PREFIX) : -1])}
    try:
        message = json.loads(data)
    except ValueError as error:
        raise ChannelClosedError(f"a packet is not JSON: {error}") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ChannelClosedError("a packet is not a JSON object with a string field 'type'")
    return message
