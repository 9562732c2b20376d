"""The progress of one process in following the orders to its container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OrderCommand = Literal["pause", "resume", "offload", "restore"]
"""A packet from the agent to a client (docs/contracts.md, "Session")."""


@dataclass(slots=True)
class OrderState:
    """A process's capabilities, the commands sent to it, and its answers."""

    capabilities: frozenset[str] = frozenset()
    """``pause`` and ``offload``, as its hello lists them."""

    pause_requested: bool = False
    paused: bool = False
    wants_turn: bool = False
    """It requested a turn while it was paused."""

    offload_requested: bool = False
    offloaded: bool = False
    """Its persistent memory is on the host."""

    offloaded_bytes: int = 0
    restore_requested: bool = False
    refusal: str = ""
    """Why it did not follow the last command; empty if it did, or has not answered."""

    refused_seconds: float = 0.0
    sent_seconds: float = 0.0
    """CLOCK_MONOTONIC of the last command."""

    timeout_reported: bool = False

    @property
    def unanswered(self) -> OrderCommand | None:
        """Return the command that it has not answered yet."""
        if self.restore_requested:
            return "restore"
        if self.offload_requested and not self.offloaded:
            return "offload"
        if self.pause_requested and not self.paused:
            return "pause"
        return None

    @property
    def off_gpu(self) -> bool:
        """Return whether its memory is on the host, or on the way there or back."""
        return self.offloaded or self.offload_requested or self.restore_requested

    def mark_sent(self, now_seconds: float) -> None:
        """Record that a command was sent."""
        self.sent_seconds = now_seconds
        self.timeout_reported = False
