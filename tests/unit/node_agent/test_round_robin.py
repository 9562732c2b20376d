"""Readers that share one place in the event loop."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from laneway.node_agent.clock import SystemClock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.memory_accounts.round_robin import RoundRobin


class Reader:
    """A socket with packets to read; it notes its name when it reads one."""

    def __init__(self, name: str, place: RoundRobin | EventLoop, packets: int, order: list[str]) -> None:
        self.reads, self.writes = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for _ in range(packets):
            self.writes.send(b"x")

        def read() -> None:
            self.reads.recv(1)
            order.append(name)

        place.add_reader(self.reads.fileno(), read)

    def close(self) -> None:
        self.reads.close()
        self.writes.close()


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    loop = EventLoop(SystemClock())
    yield loop
    loop.close()


def test_a_turn_of_the_loop_serves_one_packet_in_rotation_beside_the_others(loop: EventLoop) -> None:
    order: list[str] = []
    shared = RoundRobin(loop)
    flooding, honest = RoundRobin(shared), RoundRobin(shared)
    readers = [Reader(f"flood{number}", flooding, 50, order) for number in range(3)]
    readers += [Reader("honest", honest, 3, order), Reader("turns", loop, 6, order)]
    for _ in range(6):
        loop.run_once()
    assert order.count("turns") == 6, "every turn of the loop serves what is outside of the rotation"
    served = [name for name in order if name != "turns"]
    assert len(served) == 6, "and one packet of the rotation"
    assert served.count("honest") == 3, "containers take turns, whatever their numbers of processes"
    assert sorted(name for name in served if name != "honest") == ["flood0", "flood1", "flood2"]
    for reader in readers:
        reader.close()


def test_a_closed_rotation_serves_nothing(loop: EventLoop) -> None:
    order: list[str] = []
    shared = RoundRobin(loop)
    container = RoundRobin(shared)
    reader, other = Reader("gone", container, 5, order), Reader("other", shared, 5, order)
    container.close()
    container.close()
    for _ in range(3):
        loop.run_once()
    assert order == ["other"] * 3
    for each in (reader, other):
        each.close()
