"""What a peer sent before it closed its connection still counts."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from laneway.node_agent.clock import SystemClock
from laneway.node_agent.event_loop import EventLoop

from tests.support.node_agent.recording_socket import RecordingSocket

LAST_PACKETS = [b"release", b"goodbye"]


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    made = EventLoop(SystemClock())
    yield made
    made.close()


def until_closed(connection: RecordingSocket, loop: EventLoop) -> None:
    # The loop would wait for ever where nothing is left to come.
    loop.call_at(SystemClock().monotonic() + 60, lambda: pytest.fail("the connection stays open"))
    while not connection.ends:
        loop.run_once()


def test_packets_count_though_their_sender_closed_with_one_unread(loop: EventLoop) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection = RecordingSocket(ours, loop)
    connection.send(b"yield")
    for packet in LAST_PACKETS:
        theirs.send(packet)
    theirs.close()
    until_closed(connection, loop)
    assert (connection.packets, connection.ends) == (LAST_PACKETS, ["closed"])


@pytest.mark.parametrize("unread", [False, True], ids=["all was read", "a packet was unread"])
@pytest.mark.parametrize("way", ["close", "read no more"])
def test_packets_count_though_their_sender_was_gone_when_the_agent_wrote(
    loop: EventLoop, way: str, unread: bool
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        connection = RecordingSocket(ours, loop)
        if unread:
            connection.send(b"yield")
        for packet in LAST_PACKETS:
            theirs.send(packet)
        if way == "close":
            theirs.close()
        else:
            theirs.shutdown(socket.SHUT_RD)
        connection.send(b"revoke")
        until_closed(connection, loop)
    assert (connection.packets, connection.ends) == (LAST_PACKETS, ["closed"])
