"""What a GPU tells the rest of the agent, on the loop's thread and without waiting for anybody."""

from __future__ import annotations

from typing import Protocol

from laneway.node_agent.turns.hold import Hold


class Notices(Protocol):
    """Who wants to know."""

    def changed(self) -> None:
        """More than a turn changed: holds, sessions, lanes, sizes, notes."""
        ...

    def noted(self, hold: Hold, reason: str, message: str) -> None:
        """Something happened to a hold that its owner should know.

        Args:
            hold: whose.
            reason: one CamelCase word, for machines.
            message: a sentence.
        """
        ...
