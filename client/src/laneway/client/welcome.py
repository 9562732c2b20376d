"""The agent's first answer: what this session may use, and how its limit is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from laneway.client.channel import ChannelClosedError


@dataclass(frozen=True)
class Welcome:
    """The fields of `welcome` that the client acts on."""

    session: str
    gpu: str
    """The GPU's uuid."""
    quota_bytes: int
    """How much of the GPU's memory this process may hold."""
    framework_bytes: int
    """The part of that which is set aside for what the framework's allocator does not know of, such as a CUDA context."""
    simulated: bool
    """The GPU is simulated: the process's CPU tensors stand for its memory."""
    release_again: bool = False
    """The agent takes a release that asks for the next turn as well."""
    answers_ping: bool = False
    """The agent answers `ping`, so that a client that waits can tell whether it lives."""

    @property
    def tensor_bytes(self) -> int:
        """How much of the quota is the process's for its tensors."""
        return max(0, self.quota_bytes - self.framework_bytes)

    @classmethod
    def read(cls, message: dict[str, Any]) -> Welcome:
        """Reads the message.

        Raises:
            ChannelClosedError: it is an `error`, or no welcome.
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
            raise ChannelClosedError(f"the welcome lacks a field or has a wrong one: {error!r}") from error
