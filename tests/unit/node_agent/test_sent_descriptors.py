"""Descriptors that a peer sends along with its packets, on kernels that cannot refuse them: a pair of sockets takes them on any."""

from __future__ import annotations

import array
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from laneway.node_agent.clock import SystemClock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.sessions.sent_descriptors import (
    close_socket,
    may_bring_descriptors,
    next_packet_has_descriptors,
    refuse_descriptors,
)

from tests.support.node_agent.recording_socket import RecordingSocket

LINGER_SECONDS = 3600
DEADLINE_SECONDS = 60


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The agent's end and the peer's."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield ends
    for end in ends:
        end.close()


@pytest.fixture
def slow_to_close() -> Iterator[socket.socket]:
    """A socket with data that its peer does not read, for which the last close waits."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connected = socket.create_connection(listener.getsockname())
        deaf, _ = listener.accept()
    connected.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            connected.send(bytes(65536))
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_SECONDS))
    yield connected
    deaf.close()  # a reset: nobody waits any more


def send_with(peer: socket.socket, sent: socket.socket) -> None:
    """Send a packet with the last reference to a socket."""
    descriptors = array.array("i", [sent.fileno()])
    peer.sendmsg([b"packet"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    sent.close()


def finishes(work: Callable[[], object]) -> bool:
    """Return whether some work ends by itself."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(DEADLINE_SECONDS)
    return not thread.is_alive()


def sees_the_end(peer: socket.socket) -> bool:
    """Return whether the peer's connection is over. It is reset if the packets that were not read are gone already."""
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_packet_with_descriptors_ends_the_connection_and_holds_up_nobody(
    pair: tuple[socket.socket, socket.socket], slow_to_close: socket.socket
) -> None:
    own, peer = pair
    loop = EventLoop(SystemClock())
    connection = RecordingSocket(own, loop)
    peer.send(b"first")
    send_with(peer, slow_to_close)
    assert finishes(lambda: [loop.run_once() for _ in range(2)])
    assert connection.packets == [b"first"]
    assert connection.ends == ["descriptors", "closed"]
    assert sees_the_end(peer)
    loop.close()


def test_closing_a_connection_with_unread_descriptors_holds_up_nobody(
    pair: tuple[socket.socket, socket.socket], slow_to_close: socket.socket
) -> None:
    own, peer = pair
    peer.send(b"first")
    send_with(peer, slow_to_close)
    assert not next_packet_has_descriptors(own)
    assert finishes(lambda: close_socket(own))
    assert own.fileno() == -1
    assert sees_the_end(peer)


def test_a_socket_that_refuses_descriptors_is_closed_at_once(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    own, peer = pair
    if not refuses(own):
        assert may_bring_descriptors(own)
        return
    with pytest.raises(PermissionError):
        peer.sendmsg([b"packet"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
    close_socket(own)
    assert own.fileno() == -1


def refuses(own: socket.socket) -> bool:
    """Have a socket refuse descriptors; return whether the kernel can."""
    refuse_descriptors(own)
    return not may_bring_descriptors(own)
