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
from ipaddress import IPv4Address

MAX_SOURCES = 1000
"""Two instructions each: 16 kB, of the 20 kB that a socket may use for options (`net.core.optmem_max`)."""

_SO_ATTACH_FILTER = 26  # asm-generic/socket.h; the socket module does not name it
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_SOURCE_IN_IPV4_HEADER = 0x1_0000_0000 - 0x100000 + 12
"""SKF_NET_OFF and the offset of the source address, as an unsigned word."""

_DROP, _KEEP_WHOLE = 0, 0xFFFF_FFFF


def drop_sources(listener: socket.socket, sources: Iterable[str]) -> None:
    """Drop the packets of these IPv4 addresses, and of no other ones, from now on.

    Args:
        listener: a listening IPv4 socket.
        sources: the addresses; those beyond :data:`MAX_SOURCES` pass.

    Raises:
        OSError: the kernel has no socket filters.
    """
    instructions = [_instruction(_LOAD_WORD, _SOURCE_IN_IPV4_HEADER)]
    for source, _ in zip(sources, range(MAX_SOURCES), strict=False):
        instructions += [
            _instruction(_JUMP_IF_EQUAL, int(IPv4Address(source)), if_false=1),
            _instruction(_RETURN, _DROP),
        ]
    instructions.append(_instruction(_RETURN, _KEEP_WHOLE))
    program = ctypes.create_string_buffer(b"".join(instructions))
    # struct sock_fprog: the number of instructions, and a pointer to them
    option = struct.pack("@HP", len(instructions), ctypes.addressof(program))
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, option)


def _instruction(code: int, operand: int, if_false: int = 0) -> bytes:
    """Return a `struct sock_filter`; a true jump goes to the next instruction."""
    return struct.pack("=HBBI", code, 0, if_false, operand)
