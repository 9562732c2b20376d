"""Chooses the iterations of a simulated GPU to trace. Tracing costs some microseconds an operation, so not
all are traced.

- The first iterations are, and those of a job near its limit: there the limit is exact at every operation.
- Otherwise two in a row are sampled now and then: allocations that outlive the first are known when the
  second is measured.
- When the process may have grown since the last sample, several in a row are traced, twice as many each time.
  A job that keeps growing ends up traced all the time.
"""

from __future__ import annotations

from collections import deque
from typing import Final

FIRST_ITERATIONS: Final = 16
IN_A_ROW: Final = 2
MIN_INTERVAL_NS: Final = 500_000_000
OVERHEAD_RATIO: Final = 250
"""Tracing takes at most one part in this many of the time, except where that makes the interval too long."""
MAX_INTERVAL_NS: Final = 60_000_000_000
NEAR_PERCENT: Final = 75
"""A limit within this percentage of the peak makes every operation count."""


class SamplingSchedule:
    """Asked before each iteration and updated after each traced one. Times are monotonic nanoseconds."""

    def __init__(self) -> None:
        self.near_bytes = 0
        """A limit below this is near."""
        self.is_brief = False
        """The current samples are two among many untraced iterations."""
        self._left = FIRST_ITERATIONS
        self._after_growth = FIRST_ITERATIONS
        self.due_ns = 0
        """No iteration is due for its time before this."""
        self._highest: deque[int] = deque(maxlen=FIRST_ITERATIONS)

    def on_growth(self) -> None:
        """Schedules more samples: the process may hold more than at the last sample."""
        self.is_brief = False
        self._left = max(self._left, self._after_growth)
        self._after_growth *= 2

    def is_due(self, now_ns: int, limit_bytes: int) -> bool:
        """Returns whether to trace the iteration that begins."""
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
        """Returns whether the last sample is old enough."""
        return now_ns >= self.due_ns

    def on_sampled(self, ended_ns: int, overhead_ns: int, highest_bytes: int) -> None:
        """Records the end of a traced iteration.

        Args:
            ended_ns: when it ended.
            overhead_ns: how much of its time was spent on tracing.
            highest_bytes: the most held in it.
        """
        self._highest.append(highest_bytes)
        self.near_bytes = max(self._highest) * 100 // NEAR_PERCENT
        self._left = max(0, self._left - 1)
        if not self._left:
            interval_ns = OVERHEAD_RATIO * IN_A_ROW * overhead_ns
            self.due_ns = ended_ns + min(MAX_INTERVAL_NS, max(MIN_INTERVAL_NS, interval_ns))

    @property
    def is_first_of_two(self) -> bool:
        """Whether the iteration just traced was the first of two."""
        return self.is_brief and self._left > 0

    def continues(self, limit_bytes: int) -> bool:
        """Returns whether the next iteration is traced as well."""
        return self._left > 0 or limit_bytes < self.near_bytes
