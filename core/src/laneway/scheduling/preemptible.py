"""The jobs that may be made to make way now, in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from laneway.scheduling.order.policy import Pace
from laneway.scheduling.standings import SortKey
from laneway.scheduling.views import Level

_PRECISION = 1e-12
"""How far a place that is reckoned from a pace may be off, of the numbers that it is reckoned from: sums of a few floats are off by
thousand times less."""


class _Seat(NamedTuple):
    """Where a job is listed."""

    place: SortKey
    """As of when the job was entered, or entered anew at a place to which it had not drifted."""

    percent: int
    group: tuple[Level, float] | None
    """Level and drift a second; None: its place stands still."""

    start: float
    """What ``position[0]`` would have been at time 0 at this drift."""


class Preemptible:
    """Jobs by place. Those whose place drifts are listed with others of the same level that drift as fast: these never pass
    one another, so that nothing has to be done about them while time goes on."""

    def __init__(self) -> None:
        self._seats: dict[str, _Seat] = {}
        self._still: list[SortKey] = []
        self._drifting: dict[tuple[Level, float], list[tuple[float, str]]] = {}
        """By level and drift: jobs by what their positions would have been at time 0."""

        self._percent: Counter[Level] = Counter()
        self._jobs: Counter[Level] = Counter()

    def place(self, key: str, now_seconds: float) -> SortKey | None:
        """Return where a job is by what was entered, if its place drifts perhaps a little before it; None: it is not here."""
        seat = self._seats.get(key)
        if seat is None or seat.group is None:
            return None if seat is None else seat.place
        drifted = seat.group[1] * now_seconds
        position = seat.start + drifted
        before = position - _PRECISION * (abs(position) + abs(drifted))
        return (*seat.place[:2], (before, *seat.place[2][1:]), *seat.place[3:])

    @property
    def comes_later(self) -> bool:
        """Whether time alone makes more jobs come after others."""
        return any(per_second > 0 for _, per_second in self._drifting)

    def enter(self, place: SortKey, percent: int, pace: Pace | None, now_seconds: float) -> None:
        """Enter a job, or enter it anew.

        Args:
            place: where it is now.
            percent: what it holds of all GPUs together.
            pace: how its place drifts from now on; None: it stands still.
            now_seconds: the moment.
        """
        group, start = None, 0.0
        if pace is not None:
            group = (place[:2], pace.per_second)
            start = place[2][0] - pace.per_second * now_seconds
        seat = _Seat(place, percent, group, start)
        if self._seats.get(place[-1]) == seat:
            return
        self.leave(place[-1])
        self._seats[place[-1]] = seat
        self._percent[place[:2]] += percent
        self._jobs[place[:2]] += 1
        if group is None:
            insort(self._still, place)
        else:
            insort(self._drifting.setdefault(group, []), (start, place[-1]))

    def leave(self, key: str) -> None:
        """Take a job out, if it is here."""
        seat = self._seats.pop(key, None)
        if seat is None:
            return
        level = seat.place[:2]
        self._percent[level] -= seat.percent
        self._jobs[level] -= 1
        if not self._jobs[level]:
            del self._jobs[level], self._percent[level]
        if seat.group is None:
            del self._still[bisect_left(self._still, seat.place)]
        else:
            group = self._drifting[seat.group]
            del group[bisect_left(group, (seat.start, key))]
            if not group:
                del self._drifting[seat.group]

    def last_first(self) -> Iterator[str]:
        """Yield the jobs whose places stand still, first the one that goes last in the order."""
        for place in reversed(self._still):
            yield place[-1]

    def levels_below(self, level: Level) -> list[Level]:
        """Return the levels above a level at which there are jobs, in rising order."""
        return sorted(each for each in self._jobs if each > level)

    def percent_below(self, level: Level) -> int:
        """Return what the jobs of larger levels hold of all GPUs together."""
        return sum(percent for each, percent in self._percent.items() if each > level)

    def after(self, place: SortKey, now_seconds: float) -> tuple[list[str], int]:
        """Return the jobs that come after a place, in no order and perhaps with some that come just before it, and what they
        hold of all GPUs together."""
        keys = [each[-1] for each in self._still[bisect_right(self._still, place) :]]
        level, position = place[:2], place[2][0]
        for (at_level, per_second), group in self._drifting.items():
            if at_level > level:
                keys += [key for _, key in group]
            elif at_level == level:
                drifted = per_second * now_seconds
                start = position - drifted - _PRECISION * (abs(position) + abs(drifted))
                keys += [key for _, key in group[bisect_left(group, (start, "")) :]]
        return keys, sum(self._seats[key].percent for key in keys)
