"""The connection of one process, packet by packet. What the packets mean is up to the subclass."""

from __future__ import annotations

import array
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.sessions.packets import MAX_PACKET_BYTES
from laneway.node_agent.sessions.sent_descriptors import (
    close_socket,
    may_bring_descriptors,
    next_packet_has_descriptors,
)

_buffer = bytearray(MAX_PACKET_BYTES + 1)
_view = memoryview(_buffer)

_MOST_QUEUED_PACKETS = 512
"""More than the kernel queues from a peer with the usual buffer of 208 KiB, in which the least packet takes some 800 bytes."""


class Readers(Protocol):
    """Calls back for readable descriptors: the event loop, or a share of its time."""

    def add_reader(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call back for as long as the descriptor is readable."""
        ...

    def remove_reader(self, descriptor: int) -> None:
        """Remove a descriptor; an unknown one is ignored."""
        ...


class PacketSocket(ABC):
    """Reads one packet at a time, sends without waiting, and closes once.

    A failure while sending closes the connection a moment later, not inside the call, because the sender is
    in the middle of a decision.
    """

    def __init__(self, connected: socket.socket, readers: Readers, loop: EventLoop, queue_bytes: int) -> None:
        """Start reading.

        Args:
            connected: the accepted socket.
            readers: calls back when a packet has come.
            loop: closes the connection after a failed send.
            queue_bytes: what may lie unread at the peer, as the kernel counts.
        """
        self._socket = connected
        self._descriptor = connected.fileno()
        self._readers = readers
        self._loop = loop
        self._open = True
        self._looks_first = may_bring_descriptors(connected)
        connected.setblocking(False)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, queue_bytes // 2)  # the kernel doubles it
        readers.add_reader(self._descriptor, self._readable)

    def close(self) -> None:
        """End the connection, once."""
        if not self._open:
            return
        self._open = False
        self._readers.remove_reader(self._descriptor)
        close_socket(self._socket)
        self._closed()

    @abstractmethod
    def _received(self, packet: bytes) -> None:
        """Handle a packet."""

    @abstractmethod
    def _closed(self) -> None:
        """Handle the end of the connection."""

    @abstractmethod
    def _queue_full(self) -> None:
        """Report that the peer does not read what it is sent, so that the connection is closed."""

    @abstractmethod
    def _brought_descriptors(self) -> None:
        """Report that the peer sent descriptors along with a packet, so that the connection is closed."""

    def _send_failed(self, error: OSError) -> None:  # noqa: B027 - most failures only mean that the peer has gone
        """Report why a packet could not be sent, if that is not the peer's doing. The connection is closed."""

    def _readable(self) -> None:
        """Read one packet: a client that floods gets no more of the loop's time than others."""
        try:
            if self._looks_first and next_packet_has_descriptors(self._socket):
                self._brought_descriptors()
                self.close()
                return
            length = self._socket.recv_into(_buffer)
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionResetError:
            return  # told once of a peer that has closed with packets unread; what it sent before comes next
        except OSError:
            length = 0
        if length == 0:
            self.close()
            return
        self._received(bytes(_view[:length]))

    def _read_rest(self) -> None:
        """Read what a peer sent before it closed, its release above all; then close."""
        for _ in range(_MOST_QUEUED_PACKETS):
            if not self._open:
                return
            self._readable()
        self.close()

    def _send(self, packet: bytes, ancillary: Sequence[tuple[int, int, array.array[int]]] = ()) -> None:
        if not self._open:
            return
        try:
            if ancillary:
                self._socket.sendmsg([packet], ancillary, socket.MSG_NOSIGNAL)
            else:
                self._socket.send(packet, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            self._queue_full()
            self._loop.post(self.close)
        except (BrokenPipeError, ConnectionResetError):
            self._loop.post(self._read_rest)
        except OSError as error:
            self._send_failed(error)
            self._loop.post(self.close)
