"""Drops packets of chosen sources at a listening socket, before the kernel makes a connection of them.

A classic BPF program (socket(7), `SO_ATTACH_FILTER`) needs no privilege. Linux runs it on each packet for
the listening socket, so a source's SYN has no answer and takes no place in the accept queue. Connections
that exist keep the program of their own beginning, which has let them pass.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

MAX_WORDS = 600
"""Of addresses: one for IPv4, four for IPv6. As the kernel rewrites it, the longest program has 19 kB of the
20 kB that a socket may use for options (`net.core.optmem_max`; 128 kB since Linux 6.8)."""

_SO_ATTACH_FILTER = 26  # asm-generic/socket.h; the socket module does not name it
_LOAD_WORD, _LOAD_STORED, _STORE = 0x20, 0x60, 0x02
_JUMP, _JUMP_IF_EQUAL, _RETURN = 0x05, 0x15, 0x06
_PROTOCOL = 0x1_0000_0000 - 0x1000
"""SKF_AD_OFF and SKF_AD_PROTOCOL, as an unsigned word."""

_NETWORK_HEADER = 0x1_0000_0000 - 0x100000
"""SKF_NET_OFF, as an unsigned word."""

_IPV6 = 0x86DD  # ETH_P_IPV6
_SOURCE_IN_IPV4_HEADER, _SOURCE_IN_IPV6_HEADER = 12, 8
_DROP, _KEEP_WHOLE = 0, 0xFFFF_FFFF


def drop_sources(listener: socket.socket, sources: Iterable[str]) -> None:
    """Drop the packets of these addresses, and of no other ones, from now on.

    Args:
        listener: a listening socket.
        sources: IPv4 and IPv6 addresses, the most important first; those beyond :data:`MAX_WORDS` pass.

    Raises:
        OSError: the kernel has no socket filters.
    """
    ipv4, ipv6 = _of_ipv4(), _of_ipv6()
    words = 0
    for source in map(ip_address, sources):
        words += len(source.packed) // 4
        if words > MAX_WORDS:
            break
        if isinstance(source, IPv4Address):
            ipv4 += _drop_ipv4(source)
        else:
            ipv6 += _drop_ipv6(source)
    keep = _instruction(_RETURN, _KEEP_WHOLE)
    instructions = [
        _instruction(_LOAD_WORD, _PROTOCOL),
        _instruction(_JUMP_IF_EQUAL, _IPV6, if_false=1),
        _instruction(_JUMP, len(ipv4) + 1),
        *ipv4,
        keep,
        *ipv6,
        keep,
    ]
    program = ctypes.create_string_buffer(b"".join(instructions))
    # struct sock_fprog: the number of instructions, and a pointer to them
    option = struct.pack("@HP", len(instructions), ctypes.addressof(program))
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, option)


def _of_ipv4() -> list[bytes]:
    return [_instruction(_LOAD_WORD, _NETWORK_HEADER + _SOURCE_IN_IPV4_HEADER)]


def _drop_ipv4(source: IPv4Address) -> list[bytes]:
    return [_instruction(_JUMP_IF_EQUAL, int(source), if_false=1), _instruction(_RETURN, _DROP)]


def _of_ipv6() -> list[bytes]:
    """Store the four words of the source: to load them from the packet for each comparison takes more room."""
    instructions = []
    for word in range(4):
        instructions.append(_instruction(_LOAD_WORD, _NETWORK_HEADER + _SOURCE_IN_IPV6_HEADER + 4 * word))
        instructions.append(_instruction(_STORE, word))
    return instructions


def _drop_ipv6(source: IPv6Address) -> list[bytes]:
    """Compare the last word first, in which neighbours differ."""
    instructions = [_instruction(_RETURN, _DROP)]
    for word, expected in enumerate(struct.unpack("!4I", source.packed)):
        compare = _instruction(_JUMP_IF_EQUAL, expected, if_false=len(instructions))
        instructions = [_instruction(_LOAD_STORED, word), compare, *instructions]
    return instructions


def _instruction(code: int, operand: int, if_false: int = 0) -> bytes:
    """Return a `struct sock_filter`; a true jump goes to the next instruction."""
    return struct.pack("=HBBI", code, 0, if_false, operand)
