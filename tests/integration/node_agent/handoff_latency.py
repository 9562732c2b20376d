"""How long a turn takes from one process to the next: ``python -m tests.integration.node_agent.handoff_latency``.

Two processes share a lane of a real agent; measured is the time from just before the one's release to the other's receipt
of its grant, beside the bare round trip of a Unix socket between two processes.
"""

from __future__ import annotations

import os
import socket
import statistics
import tempfile
import time
from pathlib import Path

from tests.integration.node_agent.node import Node


def round_trips_us(count: int = 20_000) -> list[float]:
    """Return round trips of a small packet between two processes, in microseconds."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        while data := theirs.recv(100):
            theirs.send(data)
        os._exit(0)
    theirs.close()
    times = []
    for _ in range(count):
        began = time.monotonic_ns()
        ours.send(b'{"type":"request"}')
        ours.recv(100)
        times.append((time.monotonic_ns() - began) / 1000)
    ours.close()
    os.wait()
    return times


def hand_offs_us(seconds: float = 20.0) -> list[float]:
    """Return hand-offs between two processes, in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node(Path(folder), lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 1}).start()
        try:
            peers = []
            for pod in ("a", "b"):
                peer = node.container(pod, 100).await_socket().process()
                peer.hello()
                peer.profile(10, 10)
                peers.append(peer)
            for peer in peers:
                peer.start("hand_off", seconds=seconds)
            granted: dict[int, tuple[int, int]] = {}
            released: dict[int, tuple[int, int]] = {}
            for number, peer in enumerate(peers):
                for turn, (grant_ns, release_ns) in peer.finish()["times"].items():
                    granted[int(turn)] = (grant_ns, number)
                    released[int(turn)] = (release_ns, number)
        finally:
            node.end()
    return [
        (granted[turn + 1][0] - release_ns) / 1000
        for turn, (release_ns, number) in released.items()
        if turn and turn + 1 in granted and granted[turn + 1][1] != number
    ]


def main() -> None:
    for what, times in (("socket round trip", round_trips_us()), ("hand-off", hand_offs_us())):
        percentiles = statistics.quantiles(times, n=100)
        print(
            f"{what}: {len(times)} times, p50 {percentiles[49]:.0f} us, p90 {percentiles[89]:.0f} us, p99 {percentiles[98]:.0f} us"
        )


if __name__ == "__main__":
    main()
