"""Connect, hello, welcome: from a path to an open session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from laneway.client.channel import Channel, ChannelClosedError, encode
from laneway.client.page import PageError, map_page
from laneway.client.session import Session
from laneway.client.welcome import Welcome

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOL_VERSION: Final = 1
ANSWER_TIMEOUT_SECONDS: Final = 2.0


class NoAgentError(Exception):
    """Nobody listens at the socket, or there is none."""


def open_session(path: str, hello: Mapping[str, Any]) -> Session:
    """Opens a session with the agent whose socket is at `path`.

    Raises:
        NoAgentError: there is nobody to talk to.
        ChannelClosedError: there is, and it refused, or did not answer within `ANSWER_TIMEOUT_SECONDS` as the contract says.
    """
    try:
        channel = Channel.connect(path, ANSWER_TIMEOUT_SECONDS)
    except OSError as error:
        raise NoAgentError(f"{path}: {error.strerror or error}") from error
    try:
        channel.send(encode("hello", version=PROTOCOL_VERSION, pid=os.getpid(), **hello))
        message, descriptor = channel.receive_first(ANSWER_TIMEOUT_SECONDS)
        try:
            welcome = Welcome.read(message)
            if descriptor is None:
                raise ChannelClosedError("the welcome came without its page")
            words = map_page(descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)
        return Session(channel, words, welcome, covers_iteration=bool(hello.get("holds_turn")))
    except (PageError, OSError) as error:
        channel.close()
        raise ChannelClosedError(str(error)) from error
    except ChannelClosedError:
        channel.close()
        raise
