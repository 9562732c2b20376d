"""Any input from a client is either a packet or refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.node_agent.sessions.packets import Packet, PacketError, decode, encode

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("ab", max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=10), inner, max_size=3)
    ),
    max_leaves=8,
)
types = st.sampled_from(
    ["hello", "profile", "request", "release", "paused", "overrun", "goodbye", "grant", ""]
)
fields = st.sampled_from(
    [
        "version",
        "pid",
        "framework",
        "device",
        "gpu",
        "holds_turn",
        "turn",
        "iterations",
        "gpu_seconds",
        "message",
    ]
)


def decoded(data: bytes) -> Packet | str:
    """Return the packet, or the reason of the refusal; no other outcome is allowed."""
    try:
        return decode(data)
    except PacketError as error:
        return str(error)


@given(st.binary(max_size=200))
def test_bytes(data: bytes) -> None:
    outcome = decoded(data)
    assert isinstance(outcome, Packet) or 0 < len(outcome) < 1000


@given(types, st.dictionaries(fields, json_values))
def test_random_objects_decode_or_raise_packet_error(kind: str, message: dict[str, Any]) -> None:
    packet = decoded(json.dumps({**message, "type": kind}).encode())
    if isinstance(packet, Packet) and packet.type == "release":
        assert packet.fields["turn"] >= 0
        assert packet.fields["gpu_seconds"] >= 0


@pytest.mark.parametrize("kind", ["request", "goodbye"])
def test_unknown_fields_of_a_newer_client_are_accepted(kind: str) -> None:
    assert decode(encode(kind, colour="green")).type == kind


@given(
    st.integers(0, 2**63 - 1) | st.integers(0, 1000),
    st.integers(0, 2**53) | st.integers(0, 1000),
    st.floats(0, 1e9) | st.floats(0, 10),
)
def test_every_spelling_of_a_release_decodes_alike(turn: int, iterations: int, gpu_seconds: float) -> None:
    packet = decode(
        b'{"type":"release","turn":%d,"iterations":%d,"gpu_seconds":%.9f}' % (turn, iterations, gpu_seconds)
    )
    other_way = decode(json.dumps({**packet.fields, "type": "release"}).encode())
    assert {**packet.fields, "type": "release"} == {**other_way.fields, "type": "release"}
    assert packet.fields["turn"] == turn
    assert packet.fields["iterations"] == iterations
    assert packet.fields["gpu_seconds"] == pytest.approx(gpu_seconds, abs=1e-9)


@pytest.mark.parametrize("number", ["01", "-1", "1e3", "1_0", ""])
def test_a_release_with_an_invalid_number_is_refused(number: str) -> None:
    with pytest.raises(PacketError):
        decode(b'{"type":"release","turn":%b,"iterations":0,"gpu_seconds":0.5}' % number.encode())
