"""The packets of the account socket (docs/contracts.md, "Memory account"): fixed sizes, little-endian."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

VERSION = 1
_REQUEST = struct.Struct("<II16sQQ")
_REPLY = struct.Struct("<IIQQQQ")
_MOST_BYTES = 1 << 50
"""More than any GPU has. A request for more is refused; a process cannot hold more."""


class Kind(IntEnum):
    """What a process asks for."""

    RESERVE = 1
    RELEASE = 2
    HELD = 3
    QUERY = 4


class Status(IntEnum):
    """The outcome of a request."""

    GRANTED = 0
    REFUSED = 1
    NO_SUCH_GPU = 2


class AccountPacketError(Exception):
    """The packet is not a request; the text says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a process."""

    kind: Kind
    gpu: bytes
    """The 16 bytes of the GPU's uuid."""

    size_bytes: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request that gets one."""

    status: Status
    used_bytes: int
    """What the container's processes have together on the GPU."""

    quota_bytes: int
    process_bytes: int
    """The process's part of that."""

    sequence: int


def decode_request(packet: bytes) -> Request:
    """Decode a packet of a process.

    Raises:
        AccountPacketError: it is malformed.
    """
    if len(packet) != _REQUEST.size:
        raise AccountPacketError(f"a request has {_REQUEST.size} bytes, not {len(packet)}")
    version, number, gpu, size_bytes, sequence = _REQUEST.unpack(packet)
    if version != VERSION:
        raise AccountPacketError(f"version {version} is unknown; send {VERSION}")
    try:
        kind = Kind(number)
    except ValueError:
        raise AccountPacketError(f"kind {number} is unknown; send 1 to {len(Kind)}") from None
    if kind is Kind.HELD and size_bytes > _MOST_BYTES:
        raise AccountPacketError(f"no process holds {size_bytes} bytes")
    return Request(kind, gpu, size_bytes, sequence)


def encode_request(request: Request) -> bytes:
    """Encode a request, as a process sends it."""
    return _REQUEST.pack(VERSION, request.kind, request.gpu, request.size_bytes, request.sequence)


def encode_reply(reply: Reply) -> bytes:
    """Encode a reply."""
    return _REPLY.pack(
        VERSION, reply.status, reply.used_bytes, reply.quota_bytes, reply.process_bytes, reply.sequence
    )


def decode_reply(packet: bytes) -> Reply:
    """Decode a reply of this version, as a process reads it."""
    _, status, used_bytes, quota_bytes, process_bytes, sequence = _REPLY.unpack(packet)
    return Reply(Status(status), used_bytes, quota_bytes, process_bytes, sequence)


def uuid_bytes(name: str) -> bytes | None:
    """Return the bytes of a GPU's uuid from NVML's text; None if the GPU is named otherwise."""
    kind, _, text = name.partition("-")
    if kind != "GPU":
        return None
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found.bytes if str(found) == text.lower() else None
