"""How long a lease has held turns, in total and lately, whatever its processes report."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

_SAMPLES = 6
"""Some more than a second, at a sample in a quarter of a second."""


@dataclass(frozen=True, slots=True)
class TurnUse:
    """A lease's turns at one moment, and whether others of its lane lack them."""

    turn_seconds: float = 0.0
    """How long it has held turns so far."""

    recent_ratio: float = 0.0
    """The part of the last second or so in which it held one."""

    contended: bool = False
    """Whether another lease that would share its lane's turns holds or wants one."""


@dataclass(slots=True)
class TurnTime:
    """The turns of one lease."""

    waited_seconds: float = 0.0
    """How long it waited for its turns, the current one included."""

    ended_seconds: float = 0.0
    """The length of the turns that have ended."""

    _samples: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_SAMPLES))

    def sample(self, now_seconds: float, running_seconds: float) -> None:
        """Remember the total at a moment; called four times a second.

        Args:
            now_seconds: CLOCK_MONOTONIC.
            running_seconds: the length of the present turn so far.
        """
        self._samples.append((now_seconds, self.ended_seconds + running_seconds))

    def recent_ratio(self, now_seconds: float, running_seconds: float) -> float:
        """Return the part of the time since the oldest sample in which it held a turn."""
        if not self._samples or now_seconds <= self._samples[0][0]:
            return 0.0
        since_seconds, held_seconds = self._samples[0]
        return (self.ended_seconds + running_seconds - held_seconds) / (now_seconds - since_seconds)
