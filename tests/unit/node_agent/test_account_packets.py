"""The packets of the account socket."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.node_agent.memory_accounts.packets import (
    AccountPacketError,
    Kind,
    Reply,
    Request,
    Status,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
    uuid_bytes,
)

GPU = bytes(range(16))
WORDS = st.integers(0, 2**64 - 1)


def test_the_layout_is_that_of_the_contract() -> None:
    packet = bytes.fromhex("0100000003000000") + GPU + (5 << 20).to_bytes(8, "little") + b"\x07" + bytes(7)
    assert decode_request(packet) == Request(Kind.HELD, GPU, 5 << 20, 7)
    reply = encode_reply(Reply(Status.REFUSED, 1, 2, 3, 4))
    assert struct.unpack("<10I", reply) == (1, 1, 1, 0, 2, 0, 3, 0, 4, 0)


@given(
    st.sampled_from([Kind.RESERVE, Kind.RELEASE, Kind.QUERY]),
    st.binary(min_size=16, max_size=16),
    WORDS,
    WORDS,
)
def test_a_request_arrives_as_it_was_sent(kind: Kind, gpu: bytes, size: int, sequence: int) -> None:
    request = Request(kind, gpu, size, sequence)
    assert decode_request(encode_request(request)) == request


@given(st.sampled_from(Status), WORDS, WORDS, WORDS, WORDS)
def test_a_reply_arrives_as_it_was_sent(
    status: Status, used: int, quota: int, part: int, sequence: int
) -> None:
    reply = Reply(status, used, quota, part, sequence)
    assert decode_reply(encode_reply(reply)) == reply


@pytest.mark.parametrize(
    ("packet", "says"),
    [
        (b"{}", "has 40 bytes, not 2"),
        (struct.pack("<II16sQQ", 1, 1, GPU, 0, 0) + b"x", "has 40 bytes, not 41"),
        (struct.pack("<II16sQQ", 2, 1, GPU, 0, 0), "version 2 is unknown"),
        (struct.pack("<II16sQQ", 1, 5, GPU, 0, 0), "kind 5 is unknown; send 1 to 4"),
        (struct.pack("<II16sQQ", 1, 3, GPU, 2**50 + 1, 0), "no process holds"),
    ],
)
def test_a_malformed_packet_is_refused_with_a_reason(packet: bytes, says: str) -> None:
    with pytest.raises(AccountPacketError, match=says):
        decode_request(packet)


@given(st.binary(max_size=80))
def test_any_packet_is_a_request_or_refused(packet: bytes) -> None:
    try:
        request = decode_request(packet)
    except AccountPacketError:
        return
    assert encode_request(request) == packet


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", GPU),
        ("GPU-00010203-0405-0607-0809-0A0B0C0D0E0F", GPU),
        ("MIG-00010203-0405-0607-0809-0a0b0c0d0e0f", None),
        ("GPU-000102030405060708090a0b0c0d0e0f", None),
        ("GPU-0", None),
    ],
)
def test_nvmls_text_names_the_drivers_bytes(name: str, want: bytes | None) -> None:
    assert uuid_bytes(name) == want
