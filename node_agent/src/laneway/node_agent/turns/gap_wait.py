"""How long a lease has waited for others that filled gaps between its iterations: pure.

A holder that is between iterations leaves its lane to others, so that no time is lost. But an iteration of theirs may
last far longer than the gap. Beside iterations of 400 ms, a job with gaps of 4 ms would have a turn of one iteration
each time, whatever its share. So the wait that a gap has cost beyond the others' share is made up for before the
next gap is left: with a share f, a lease may wait (1 - f) / f times as long as it has turns.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class GapWait:
    """The wait of one lease. Times are seconds."""

    owed_seconds: float = 0.0
    """What others still owe it."""

    _left: bool = False
    """It has left a gap to a lease that was not due for a turn, and has had none since."""

    def leave(self) -> None:
        """Record that it leaves a gap to a lease that is not due for a turn."""
        self._left = True

    def begin_turn(self, waited_seconds: float) -> None:
        """Record that it has waited for a turn, and has it now."""
        if self._left:
            self.owed_seconds += waited_seconds
            self._left = False

    def end_turn(self, held_seconds: float, wait_ratio: float) -> None:
        """Record a turn, which makes up for some of the wait.

        Args:
            held_seconds: how long it had the turn.
            wait_ratio: the time that it may wait for each second of a turn, by the weights of all who want the lane.
        """
        self.owed_seconds = max(0.0, self.owed_seconds - held_seconds * wait_ratio)

    def free_after_seconds(self, wait_ratio: float) -> float:
        """Return how long its turn lasts until a gap may be left to others."""
        return self.owed_seconds / wait_ratio
