"""Which iterations of a simulated GPU are watched operation by operation: that costs some microseconds each, so not all are.

- The first ones are, and those of a job that is near its limit: there the limit is exact at every operation.
- Else two in a row now and then: what the first makes and leaves behind is known when the second is measured.
- Whenever the process may hold more than when it was watched last, a number in a row again, and twice as many each time: a job that goes on changing
  ends up being watched all the time.
"""

from __future__ import annotations

from collections import deque
from typing import Final

FIRST_ITERATIONS: Final = 16
IN_A_ROW: Final = 2
LEAST_REST_NS: Final = 500_000_000
REST_RATIO: Final = 250
"""What watching takes is one part of so many of the time, or less, unless that makes too long a rest."""
LONGEST_REST_NS: Final = 60_000_000_000
NEAR_PERCENT: Final = 75
"""Of the limit: from here on every operation counts."""


class WatchSchedule:
    """Asked before each iteration, told after each that was watched. Clock values are nanoseconds that only rise."""

    def __init__(self) -> None:
        self.near_bytes = 0
        """A limit below this is near."""
        self.is_brief = False
        """Those watched now are two among many that are not."""
        self._left = FIRST_ITERATIONS
        self._after_growth = FIRST_ITERATIONS
        self.due_ns = 0
        """Until then none is watched for the time that has passed."""
        self._highest: deque[int] = deque(maxlen=FIRST_ITERATIONS)

    def grown(self) -> None:
        """The process may hold more than it did when it was watched last."""
        self.is_brief = False
        self._left = max(self._left, self._after_growth)
        self._after_growth *= 2

    def is_due(self, now_ns: int, limit_bytes: int) -> bool:
        """Whether the iteration that begins is to be watched."""
        if self._left > 0:
            return True
        if limit_bytes < self.near_bytes:
            self.is_brief = False
            return True
        if not self.is_due_by_time(now_ns):
            return False
        self._left = IN_A_ROW
        self.is_brief = True
        return True

    def is_due_by_time(self, now_ns: int) -> bool:
        """Whether none was watched for long enough."""
        return now_ns >= self.due_ns

    def watched(self, ended_ns: int, longer_ns: int, highest_bytes: int) -> None:
        """An iteration that was watched has ended.

        Args:
            ended_ns: when.
            longer_ns: how much of its time was for being watched.
            highest_bytes: the most that was held in it.
        """
        self._highest.append(highest_bytes)
        self.near_bytes = max(self._highest) * 100 // NEAR_PERCENT
        self._left = max(0, self._left - 1)
        if not self._left:
            rest_ns = REST_RATIO * IN_A_ROW * longer_ns
            self.due_ns = ended_ns + min(LONGEST_REST_NS, max(LEAST_REST_NS, rest_ns))

    @property
    def is_first_of_two(self) -> bool:
        """Asked after one that was watched: whether it was the first of two."""
        return self.is_brief and self._left > 0

    def goes_on(self, limit_bytes: int) -> bool:
        """Whether the next iteration is watched, too."""
        return self._left > 0 or limit_bytes < self.near_bytes
