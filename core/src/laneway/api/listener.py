"""The socket on which a component serves HTTP."""

from __future__ import annotations

import socket


def listen(address: str, port: int, backlog: int | None = None) -> socket.socket:
    """Return a listening socket. An empty address: all of the machine's, of IPv4 and of IPv6 where it has both.

    Raises:
        OSError: the port is taken, or the address is not this machine's.
    """
    dual_stack = socket.has_dualstack_ipv6()
    if ":" in address or (not address and dual_stack):
        return socket.create_server(
            (address, port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=dual_stack
        )
    return socket.create_server((address, port), backlog=backlog)
