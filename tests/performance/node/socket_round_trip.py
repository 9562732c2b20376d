"""What the machine itself takes for two wake-ups: a small packet over a Unix SEQPACKET socket to another process and back.

A hand-off has as many: the agent's, and that of the process that gets the turn.
"""

from __future__ import annotations

import os
import socket
import time


def round_trips_us(count: int, pause_seconds: float = 0.0) -> list[float]:
    """Return round trips between two processes, in microseconds.

    Args:
        count: how many.
        pause_seconds: between two of them; with a pause the cores have gone to sleep, as they have before most hand-offs.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        ours.close()
        while data := theirs.recv(100):
            theirs.send(data)
        os._exit(0)
    theirs.close()
    times_us = []
    for _ in range(count):
        if pause_seconds:
            time.sleep(pause_seconds)
        began_ns = time.monotonic_ns()
        ours.send(b'{"type":"request"}')
        ours.recv(100)
        times_us.append((time.monotonic_ns() - began_ns) / 1000)
    ours.close()
    os.waitpid(child, 0)
    return times_us
