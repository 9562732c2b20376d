"""Ports on which the ranks of a gang meet, which no other program takes between choosing and listening."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path

_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 20_000
_NODE_PORTS = 30_000  # from here on Kubernetes gives ports to Services
_PORTS_PER_WORKER = 1_000


def rendezvous_ports() -> Iterator[int]:
    """Yields free ports, each once.

    The kernel may give a free port of its range for outgoing connections to any test's connection before rank
    0 listens on it, some seconds later. These ports lie outside that range, and each worker of pytest-xdist
    has its own.
    """
    low, high = map(int, _OUTGOING.read_text(encoding="ascii").split())
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = _FIRST + worker * _PORTS_PER_WORKER % (_NODE_PORTS - _FIRST)
    for port in itertools.cycle(range(first, first + _PORTS_PER_WORKER)):
        if not low <= port <= high and _is_free(port):
            yield port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
