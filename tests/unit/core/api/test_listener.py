"""Which addresses a component serves on."""

from __future__ import annotations

import socket

import pytest
from laneway.api.listener import listen


def reached(listening: socket.socket) -> set[str]:
    """The loopback addresses at which it accepts connections."""
    found = set()
    for address in ("127.0.0.1", "::1"):
        try:
            socket.create_connection((address, listening.getsockname()[1])).close()
        except ConnectionRefusedError:
            continue
        found.add(address)
    return found


@pytest.mark.parametrize(
    ("address", "addresses"),
    [
        ("", {"127.0.0.1", "::1"}),
        ("::", {"127.0.0.1", "::1"}),
        ("::1", {"::1"}),
        ("0.0.0.0", {"127.0.0.1"}),
        ("127.0.0.1", {"127.0.0.1"}),
    ],
)
def test_an_address_of_each_family(address: str, addresses: set[str]) -> None:
    with listen(address, 0) as listening:
        assert reached(listening) == addresses


def test_a_kernel_without_ipv6_serves_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with listen("", 0) as listening:
        assert listening.family == socket.AF_INET
        assert reached(listening) == {"127.0.0.1"}
