"""What is seen of one tenant's memory, whatever its processes say: by the driver, or in its memory account.

Between its turns a tenant holds its persistent memory, and in a turn up to all that it needs. Its turns are not seen one by
one, so the most that was seen lately counts, as long as it has a lane. Without a lane it gets no turns, so the last look counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

RECENT_SECONDS: Final = 60.0
"""How long the most that was seen counts."""

_CHANGE_PERCENT: Final = 5
"""A smaller decrease is ignored, because it would rebuild lanes for nothing."""


@dataclass(frozen=True, slots=True)
class SeenMemory:
    """What counts of what was seen so far."""

    resident_bytes: int = 0
    """At the last look between turns."""

    occupied_bytes: int = 0
    """The most at recent looks, in turns or not."""

    peak_seconds: float = field(default=0.0, compare=False)
    """When that was seen last."""

    def after(
        self, held_bytes: int, now_seconds: float, *, between_turns: bool, has_lane: bool
    ) -> SeenMemory:
        """Return what counts after another look.

        Args:
            held_bytes: what all processes of the tenant hold together.
            now_seconds: the time of the look.
            between_turns: the tenant had no turn since the look before, so it has returned what a turn needs.
            has_lane: the tenant may get a turn.
        """
        resident_bytes = _steady(self.resident_bytes, held_bytes) if between_turns else self.resident_bytes
        if not has_lane:
            return SeenMemory(resident_bytes, held_bytes, now_seconds)
        if held_bytes < self.occupied_bytes and now_seconds - self.peak_seconds < RECENT_SECONDS:
            return SeenMemory(resident_bytes, self.occupied_bytes, self.peak_seconds)
        return SeenMemory(resident_bytes, _steady(self.occupied_bytes, held_bytes), now_seconds)


def _steady(before_bytes: int, now_bytes: int) -> int:
    """Return the bytes that count: never less than now, and as before if that is little more."""
    slightly_less = (
        now_bytes <= before_bytes and (before_bytes - now_bytes) * 100 <= before_bytes * _CHANGE_PERCENT
    )
    return before_bytes if slightly_less else now_bytes
