"""The services of jobs that have ended, as a histogram: bounded, whatever the number of jobs, and merged by addition.

A job that failed or was cancelled would have needed more than it attained, nobody knows how much: a censored observation. Completed
jobs alone would make all jobs look shorter than they are. Kaplan and Meier's product-limit estimator (1958), in the actuarial form for
grouped data, uses both: of the jobs that reached a bin, the part that ended in it, where those that were stopped in it count half.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

BINS_PER_DOUBLING = 8
"""Bounds of a bin are 9 percent apart: much less than services of one kind of job differ."""

MOST_BIN = 320
"""The last bin has everything from 2^40 GPU-seconds on: 35,000 GPU-years."""


class ServiceCount(NamedTuple):
    """Jobs whose service lies in one bin."""

    bin: int
    """Services from 2^(bin / 8) GPU-seconds up to those of the next bin; bin 0 has smaller ones, too."""

    completed: int
    stopped: int
    """Failed or cancelled."""


def bin_of(service_gpu_seconds: float) -> int:
    """Return the bin of a service."""
    if service_gpu_seconds <= 1:
        return 0
    return min(MOST_BIN, math.floor(BINS_PER_DOUBLING * math.log2(service_gpu_seconds)))


def bounds_gpu_seconds(number: int) -> tuple[float, float]:
    """Return the bounds of a bin."""
    low = 2 ** (number / BINS_PER_DOUBLING) if number else 0.0
    return float(low), float(2 ** ((number + 1) / BINS_PER_DOUBLING))


@dataclass(frozen=True)
class PastServices:
    """The services of ended jobs. Hashed by its counts."""

    counts: tuple[ServiceCount, ...] = ()
    """Rising bins; no empty ones."""

    def with_stopped(self, services_gpu_seconds: Iterable[float]) -> PastServices:
        """Return these services and those of further jobs, which have not completed."""
        log = ServiceLog()
        log.add(self.counts)
        for service in services_gpu_seconds:
            log.note(service, completed=False)
        return log.past()

    @cached_property
    def completed(self) -> int:
        """The number of completed jobs."""
        return sum(each.completed for each in self.counts)

    @cached_property
    def stopped(self) -> int:
        """The number of jobs that failed or were cancelled."""
        return sum(each.stopped for each in self.counts)

    def distribution(self) -> tuple[tuple[float, float, float], ...]:
        """Return the estimated distribution of the services that jobs need.

        Returns:
            Rising bins, each with its bounds in GPU-seconds and its probability. The rest up to 1 is beyond the last of them.
        """
        found: list[tuple[float, float, float]] = []
        at_risk, reached = float(self.completed + self.stopped), 1.0
        for number, completed, stopped in self.counts:
            if completed:
                ends_ratio = min(1.0, completed / (at_risk - stopped / 2))
                found.append((*bounds_gpu_seconds(number), reached * ends_ratio))
                reached *= 1 - ends_ratio
            at_risk -= completed + stopped
        return tuple(found)


class ServiceLog:
    """Counts the services of jobs as they end."""

    def __init__(self) -> None:
        self._completed: Counter[int] = Counter()
        self._stopped: Counter[int] = Counter()

    def note(self, service_gpu_seconds: float, *, completed: bool) -> None:
        """Count one more job."""
        (self._completed if completed else self._stopped)[bin_of(service_gpu_seconds)] += 1

    def add(self, counts: Iterable[ServiceCount], *, sign: int = 1) -> None:
        """Count jobs; with a sign of -1, count them no longer."""
        for each in counts:
            self._completed[each.bin] += sign * each.completed
            self._stopped[each.bin] += sign * each.stopped

    def past(self) -> PastServices:
        """Return what was counted so far."""
        bins = sorted(self._completed.keys() | self._stopped.keys())
        counts = (ServiceCount(number, self._completed[number], self._stopped[number]) for number in bins)
        return PastServices(tuple(each for each in counts if each.completed or each.stopped))


NO_SERVICES = PastServices()

_NEWS_RATIO = 0.05


def is_news(before: PastServices, after: PastServices) -> bool:
    """Whether so many jobs have ended, or are no longer known, that the distribution may be another one."""
    most = max(before.completed + before.stopped, after.completed + after.stopped)
    changed = abs(after.completed - before.completed) + abs(after.stopped - before.stopped)
    return changed > 0 and changed >= _NEWS_RATIO * most
