"""The handshake: connect, send hello, read welcome; or only a hello that says why there is no session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from laneway.client.session.channel import Channel, ChannelClosedError, encode
from laneway.client.session.session import Session
from laneway.client.session.settings import SessionSettings
from laneway.client.session.shared_page import SharedPageError, map_shared_page

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOL_VERSION: Final = 1
ANSWER_TIMEOUT_SECONDS: Final = 2.0


class NoAgentError(Exception):
    """Nobody listens at the socket, or the socket does not exist."""


def send_hello(path: str, hello: Mapping[str, Any]) -> None:
    """Sends a hello that opens no session, to the agent whose socket is at `path`.

    Raises:
        NoAgentError: no agent listens there.
        ChannelClosedError: the agent does not read.
    """
    channel = _connect(path)
    try:
        channel.send(_encode_hello(hello))
    finally:
        channel.close()


def open_session(path: str, hello: Mapping[str, Any]) -> Session:
    """Opens a session with the agent whose socket is at `path`.

    Raises:
        NoAgentError: no agent listens there.
        ChannelClosedError: the agent refused, violated the protocol, or did not answer within
            `ANSWER_TIMEOUT_SECONDS`.
    """
    channel = _connect(path)
    try:
        channel.send(_encode_hello(hello))
        message, descriptor = channel.receive_first(ANSWER_TIMEOUT_SECONDS)
        try:
            settings = SessionSettings.from_message(message)
            if descriptor is None:
                raise ChannelClosedError("the welcome came without the shared page")
            words = map_shared_page(descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)
        return Session(channel, words, settings, covers_iteration=bool(hello.get("holds_turn")))
    except (SharedPageError, OSError) as error:
        channel.close()
        raise ChannelClosedError(str(error)) from error
    except ChannelClosedError:
        channel.close()
        raise


def _connect(path: str) -> Channel:
    try:
        return Channel.connect(path, ANSWER_TIMEOUT_SECONDS)
    except OSError as error:
        raise NoAgentError(f"{path}: {error.strerror or error}") from error


def _encode_hello(hello: Mapping[str, Any]) -> bytes:
    return encode("hello", version=PROTOCOL_VERSION, pid=os.getpid(), **hello)
