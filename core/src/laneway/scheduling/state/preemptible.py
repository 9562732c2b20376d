"""The jobs that may be preempted now, in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from laneway.scheduling.gpus.views import Level
from laneway.scheduling.order.policy import Pace
from laneway.scheduling.state.ranking import SortKey

_PRECISION = 1e-12
"""The relative error allowed for a place computed from a pace; the sum of a few floats is off by a thousandth of that."""


class _Seat(NamedTuple):
    """A job's entry."""

    place: SortKey
    """As of the last :meth:`Preemptible.add` that moved the job other than by drift."""

    percent: int
    group: tuple[Level, float] | None
    """Level and drift per second; None: its place does not drift."""

    start: float
    """``position[0]`` extrapolated to time 0 at this drift."""


class Preemptible:
    """Jobs by place. Drifting jobs are grouped by level and pace: within a group their order never changes, so time passing
    needs no work."""

    def __init__(self) -> None:
        self._seats: dict[str, _Seat] = {}
        self._still: list[SortKey] = []
        self._drifting: dict[tuple[Level, float], list[tuple[float, str]]] = {}
        """By level and drift: jobs by their positions extrapolated to time 0."""

        self._percent: Counter[Level] = Counter()
        self._jobs: Counter[Level] = Counter()

    def place(self, key: str, now_seconds: float) -> SortKey | None:
        """Return a job's place now, rounded towards the front if it drifts; None: it is not here."""
        seat = self._seats.get(key)
        if seat is None or seat.group is None:
            return None if seat is None else seat.place
        drifted = seat.group[1] * now_seconds
        position = seat.start + drifted
        before = position - _PRECISION * (abs(position) + abs(drifted))
        return (*seat.place[:2], (before, *seat.place[2][1:]), *seat.place[3:])

    def level(self, key: str) -> Level:
        """Return the level of a job that is here; jobs of smaller levels may preempt it."""
        return self._seats[key].place[:2]

    @property
    def comes_later(self) -> bool:
        """Whether time alone moves jobs behind others."""
        return any(per_second > 0 for _, per_second in self._drifting)

    def add(self, place: SortKey, percent: int, pace: Pace | None, now_seconds: float) -> None:
        """Add a job, or move it.

        Args:
            place: where it is now.
            percent: its total percent of all GPUs.
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
        self.remove(place[-1])
        self._seats[place[-1]] = seat
        self._percent[place[:2]] += percent
        self._jobs[place[:2]] += 1
        if group is None:
            insort(self._still, place)
        else:
            insort(self._drifting.setdefault(group, []), (start, place[-1]))

    def remove(self, key: str) -> None:
        """Remove a job, if it is here."""
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
        """Yield the jobs that do not drift, the last in the order first."""
        for place in reversed(self._still):
            yield place[-1]

    def levels_below(self, level: Level) -> list[Level]:
        """Return the levels above a level at which there are jobs, in rising order."""
        return sorted(each for each in self._jobs if each > level)

    def percent_below(self, level: Level) -> int:
        """Return the total percent of all GPUs that the jobs of larger levels hold."""
        return sum(percent for each, percent in self._percent.items() if each > level)

    def after(self, place: SortKey, now_seconds: float) -> tuple[list[str], int]:
        """Return the jobs after a place, in no order, and the percent of all GPUs together that they hold.

        Because of rounding, a few that come just before it may be included.
        """
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
