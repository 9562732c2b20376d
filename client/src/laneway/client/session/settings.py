"""The agent's answer to hello: what the session may use, and which messages the agent understands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from laneway.client.session.channel import ChannelClosedError


@dataclass(frozen=True)
class SessionSettings:
    """The fields of `welcome` that the client uses."""

    session: str
    gpu: str
    """The GPU's uuid."""
    quota_bytes: int
    """How much of the GPU's memory this process may hold."""
    framework_bytes: int
    """The part of the quota reserved for memory outside the framework's allocator, such as a CUDA context."""
    simulated: bool
    """The GPU is simulated: the process's CPU tensors stand for its memory."""
    release_again: bool = False
    """The agent accepts a release that also requests the next turn."""
    answers_ping: bool = False
    """The agent answers `ping`, so that a waiting client can detect an agent that hangs."""

    @property
    def tensor_bytes(self) -> int:
        """The part of the quota that is available for tensors."""
        return max(0, self.quota_bytes - self.framework_bytes)

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> SessionSettings:
        """Reads the message.

        Raises:
            ChannelClosedError: the message is an `error`, is not a welcome, or lacks a field.
        """
        if message["type"] == "error":
            raise ChannelClosedError(f"the agent refused: {message.get('reason', 'no reason given')}")
        if message["type"] != "welcome":
            raise ChannelClosedError(f"the agent answered hello with {message['type']!r}")
        try:
            return cls(
                session=str(message["session"]),
                gpu=str(message["gpu"]),
                quota_bytes=int(message["quota_bytes"]),
                framework_bytes=int(message.get("framework_bytes", 0)),
                simulated=bool(message["simulated"]),
                release_again=bool(message.get("release_again", False)),
                answers_ping=bool(message.get("answers_ping", False)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ChannelClosedError(f"the welcome has a missing or invalid field: {error!r}") from error
