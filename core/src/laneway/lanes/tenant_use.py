"""A tenant's use of a GPU, as rate control sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TenantUse:
    """A tenant's use of the GPU so far, which nothing changes. Counters never decrease. Clock values are seconds of one
    monotonic clock.

    One is made for each tenant twenty times a second, and a frozen one takes five times as long.
    """

    key: str
    lane: int
    weight: int
    """Its share of the GPU, in percent."""

    iterations: int
    """Iterations that it reports as completed."""

    busy_seconds: float
    """The time that it reports for them."""

    inside: bool
    """Whether it reports to be inside an iteration."""

    turns: int
    """Turns that it was granted."""

    charged_seconds: float
    """The time for which it held its lane and used it."""

    waited_seconds: float = 0.0
    """The time that it waited for the turns that it was granted."""

    waiting_since_seconds: float | None = None
    """Since when it waits for a turn; None if it does not."""

    turn_began_seconds: float | None = None
    """When its current turn began; None if it has none."""

    turn_ends_seconds: float | None = None
    """When the time of its current turn is over; None if it has none, or nobody else wants it."""

    may_overlap: bool = False
    """Whether it has the next turn, and nothing but the current turn keeps it from running."""

    late: bool = False
    """It yields its turn so late that its lane runs beside the others meanwhile."""
