"""Packets of the session protocol (docs/contracts.md, "Session"): checks what clients send and encodes
answers.

Hand-written rather than a pydantic model, because two packets pass here for each turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, NoReturn

MAX_PACKET_BYTES: Final = 65_536
PROTOCOL_VERSION: Final = 1
_MAX_TEXT: Final = 4096
_MAX_WORD: Final = 2**63 - 1
_MAX_BYTES: Final = 2**50
"""A pebibyte. These values are added up over processes and time, and the sum must fit a Kubernetes
integer."""
_MAX_ITERATIONS: Final = 2**53
_MAX_SECONDS: Final = 1e9
_MAX_UNIX_SECONDS: Final = 2**33
"""In the year 2242."""
_LOSS: Final = re.compile(r"NaN|-?Infinity|-?[0-9]{1,12}(\.[0-9]{1,12})?(e[+-]?[0-9]{1,3})?")
"""A loss is sent as text: JSON has no NaN, and a custom resource has no floats."""


class PacketError(Exception):
    """A packet violates the protocol; the text names the wrong field and what is expected."""


class Packet(NamedTuple):
    """A checked packet: all its fields are present and valid."""

    type: str
    fields: Mapping[str, Any]


def encode(kind: str, **fields: Any) -> bytes:
    """Return a message as a packet."""
    return json.dumps({"type": kind, **fields}, separators=(",", ":")).encode()


def decode(data: bytes) -> Packet:
    """Decode a client's packet.

    Raises:
        PacketError: it is not a JSON object of a known type, or a field is missing or wrong.
    """
    if data == _REQUEST_BYTES:
        return _REQUEST
    release = _RELEASE.fullmatch(data)
    if release is not None:
        turn, iterations, gpu_seconds, again = release.groups()
        return Packet(
            "release",
            {
                "turn": int(turn),
                "iterations": int(iterations),
                "gpu_seconds": float(gpu_seconds),
                "again": again is not None,
            },
        )
    if len(data) > MAX_PACKET_BYTES:
        raise PacketError(f"the packet is longer than {MAX_PACKET_BYTES} bytes")
    try:
        message = _DECODER.decode(data.decode())
    except (ValueError, RecursionError) as error:
        raise PacketError(f"the packet is not JSON: {str(error)[:200]}") from error
    if not isinstance(message, dict):
        raise PacketError(
            f"the packet is a JSON {type(message).__name__}; send an object with a field 'type'"
        )
    kind = message.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise PacketError(f"'type' is {_shown(kind)}; send one of {', '.join(_FIELDS)}")
    for name, (check, optional) in _FIELDS[kind].items():
        if name not in message:
            if optional:
                continue
            raise PacketError(f"{kind}: the field '{name}' is missing")
        problem = check(message[name])
        if problem:
            raise PacketError(f"{kind}: '{name}' is {_shown(message[name])}; {problem}")
    return Packet(kind, message)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _whole(value: Any) -> str:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_WORD
    return "" if good else "send a whole number from 0 to 2^63-1"


def _bytes(value: Any) -> str:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_BYTES
    return "" if good else "send a whole number of bytes, from 0 to 2^50"


def _iterations(value: Any) -> str:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_ITERATIONS
    return "" if good else "send a whole number from 0 to 2^53"


def _seconds(value: Any) -> str:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MAX_SECONDS
    return "" if good else "send a number of seconds, from 0 to 10^9"


def _seconds_or_none(value: Any) -> str:
    return "" if value is None else _seconds(value)


def _time_or_none(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    good = value is None or (number and 0 <= value <= _MAX_UNIX_SECONDS)
    return "" if good else "send a time in Unix seconds, from 0 to 2^33"


def _samples_or_none(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    good = value is None or (number and 0 <= value <= _MAX_ITERATIONS)
    return "" if good else "send a number of samples, from 0 to 2^53"


def _count_or_none(value: Any) -> str:
    return "" if value is None else _iterations(value)


def _loss_or_none(value: Any) -> str:
    good = value is None or (isinstance(value, str) and _LOSS.fullmatch(value))
    return "" if good else 'send a number as text, such as "0.25", "NaN" or "-Infinity"'


def _text(value: Any) -> str:
    good = isinstance(value, str) and len(value) <= _MAX_TEXT and not _SURROGATE.search(value)
    return "" if good else f"send text of up to {_MAX_TEXT} characters, without halves of surrogate pairs"


def _gpu(value: Any) -> str:
    return "" if value is None else _text(value)


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "send true or false"


def _words(value: Any) -> str:
    good = isinstance(value, list) and len(value) <= 64 and not any(map(_text, value))
    return "" if good else "send a list of up to 64 words"


def _refusable(value: Any) -> str:
    return "" if value in ("offload", "restore") else "send offload or restore"


def _version(value: Any) -> str:
    good = not isinstance(value, bool) and value == PROTOCOL_VERSION
    return "" if good else f"this agent speaks version {PROTOCOL_VERSION}"


# JSON can spell lone surrogates, UTF-8 cannot: writing such text would fail.
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

# Created once: json.loads creates a decoder per call when it is given an option.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)

# Nearly all packets are one of these two. The first is always the same, the second nearly so. The digits are
# few enough that any match passes the checks. Any other spelling takes the general path.
_REQUEST: Final = Packet("request", {})
_REQUEST_BYTES: Final = encode("request")
_NUMBER: Final = rb"(0|[1-9]\d{0,14})"
_RELEASE: Final = re.compile(
    rb'\{"type":"release","turn":%b,"iterations":%b,"gpu_seconds":((?:0|[1-9]\d{0,7})\.\d{1,9})(,"again":true)?\}'
    % (_NUMBER, _NUMBER)
)

Check = Callable[[Any], str]
"""Returns what is wrong with a value; empty if nothing is."""

_FIELDS: Final[dict[str, dict[str, tuple[Check, bool]]]] = {
    "hello": {
        "version": (_version, False),
        "pid": (_whole, False),
        "framework": (_text, False),
        "device": (_text, False),
        "gpu": (_gpu, False),
        "local_rank": (_whole, True),
        "no_turns": (_text, True),
        "holds_turn": (_flag, True),
        "can": (_words, True),
        "offloaded": (_flag, True),
        "gate": (_flag, True),
    },
    "profile": {
        "persistent_bytes": (_bytes, False),
        "ephemeral_bytes": (_bytes, False),
        "framework_bytes": (_bytes, False),
        "iteration_seconds": (_seconds, False),
        "iterations": (_iterations, False),
        "largest_tensor_bytes": (_bytes, False),
        "model_bytes": (_bytes, False),
        "iteration_seconds_spread": (_seconds, True),
        "remaining_seconds": (_seconds_or_none, True),
        "data_seconds": (_seconds, True),
    },
    "report": {
        "step": (_count_or_none, True),
        "steps": (_count_or_none, True),
        "epoch": (_count_or_none, True),
        "loss": (_loss_or_none, True),
        "remaining_seconds": (_seconds_or_none, True),
        "unsaved_since": (_time_or_none, True),
        "checkpointed": (_flag, True),
        "loaded_from": (_time_or_none, True),
        "ranks": (_count_or_none, True),
        "local_batch": (_count_or_none, True),
        "passes": (_count_or_none, True),
        "initial_batch": (_count_or_none, True),
        "max_batch": (_count_or_none, True),
        "max_local_batch": (_count_or_none, True),
        "noise_scale": (_samples_or_none, True),
    },
    "request": {},
    "ping": {},
    "release": {
        "turn": (_whole, False),
        "iterations": (_iterations, False),
        "gpu_seconds": (_seconds, False),
        "again": (_flag, True),
    },
    "paused": {},
    "offloaded": {"freed_bytes": (_bytes, False), "seconds": (_seconds, False)},
    "restored": {"seconds": (_seconds, False)},
    "refused": {"order": (_refusable, False), "message": (_text, False)},
    "overrun": {
        "used_bytes": (_bytes, False),
        "quota_bytes": (_bytes, False),
        "message": (_text, False),
        "device_full": (_flag, True),
    },
    "goodbye": {},
}
"""Per type: the check of each field, and whether the field is optional. Unknown fields are accepted,
because a client may be newer than the agent."""
