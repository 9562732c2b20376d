"""How far one process has followed the orders to its container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OrderWord = Literal["pause", "resume", "offload", "restore"]
"""A packet from the agent to a client (docs/contracts.md, "Session")."""


@dataclass(slots=True)
class Standing:
    """What a process can do, what it was told, and what it answered."""

    can: frozenset[str] = frozenset()
    """Of ``pause`` and ``offload``, what its hello says."""

    pause_asked: bool = False
    paused: bool = False
    wants_turn: bool = False
    """It asked for a turn while it is paused."""

    offload_asked: bool = False
    offloaded: bool = False
    """Its persistent memory is on the host."""

    offloaded_bytes: int = 0
    restore_asked: bool = False
    refusal: str = ""
    """Why it did not do what it was told last; empty where it did, or has not answered."""

    refused_seconds: float = 0.0
    asked_seconds: float = 0.0
    """CLOCK_MONOTONIC of the last thing that it was told."""

    lateness_told: bool = False

    @property
    def owes(self) -> OrderWord | None:
        """Return what it was told and has not answered."""
        if self.restore_asked:
            return "restore"
        if self.offload_asked and not self.offloaded:
            return "offload"
        if self.pause_asked and not self.paused:
            return "pause"
        return None

    @property
    def away(self) -> bool:
        """Whether its memory is on the host, or may be on the way."""
        return self.offloaded or self.offload_asked or self.restore_asked

    def note_asked(self, now_seconds: float) -> None:
        """It was told something just now."""
        self.asked_seconds = now_seconds
        self.lateness_told = False
