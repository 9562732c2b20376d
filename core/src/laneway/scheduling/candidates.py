"""Who may have to make way for a job that finds no room."""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import islice, takewhile

from laneway.scheduling.books import Books
from laneway.scheduling.snapshot import Job
from laneway.scheduling.standings import SortKey
from laneway.scheduling.trial import Placement
from laneway.scheduling.views import LATER, Level, View

_TRIED_SINGLY = 8
"""So many jobs more than the gang has workers, from the last in the order, are tried as victims wherever they run. After
that only those are that hold GPUs where the gang would be placed if all of the levels it takes were gone."""


class Candidates:
    """Looks for them, in one decision."""

    def __init__(self, books: Books, taken: Container[str], now_seconds: float) -> None:
        """Prepare.

        Args:
            books: what is known.
            taken: jobs that make way already; it may grow.
            now_seconds: the moment.
        """
        self._books = books
        self._taken = taken
        self._now_seconds = now_seconds

    def of(self, job: Job, place: SortKey) -> Iterator[list[Job]]:
        """Yield who may be preempted for a job, first the one that goes last in the order: at first those that are
        preferred, then others, if these are not enough. Nobody, if it is no use."""
        if not self._books.policies.order.preempts_by_queue:
            yield self._by_rank(job, place)
            return
        if not self._books.room(LATER).may_hold(job, self._books.preemptible.percent_below(place[:2])):
            return
        reach = self._reach(job, place[:2])
        if reach is None:
            return
        lowest, gpus = reach
        below = (
            key
            for key in takewhile(
                lambda key: self._books.level(key) > lowest, self._books.preemptible.last_first()
            )
            if key not in self._taken
        )
        most = job.demand.workers + _TRIED_SINGLY
        nearest = [self._books.jobs[key] for key in islice(below, most)]
        yield nearest
        if len(nearest) == most:
            there = [key for key in self._books.ledger.below(lowest, gpus) if key not in self._taken]
            there.sort(key=lambda key: self._books.standings.keys[key], reverse=True)
            yield [self._books.jobs[key] for key in there]

    def _by_rank(self, job: Job, place: SortKey) -> list[Job]:
        books = self._books
        keys, percent = books.preemptible.after(place, self._now_seconds)
        if not self._books.room(LATER).may_hold(job, percent):
            return []
        books.look_up(keys, self._now_seconds)
        ranks = books.standings.ranks
        jobs = (books.jobs[key] for key in sorted(keys, key=books.standings.keys.__getitem__, reverse=True))
        lower = takewhile(
            lambda running: (
                running.priority < job.priority
                or (
                    running.priority == job.priority
                    and self._books.policies.order.may_preempt(ranks[job.key], ranks[running.key])
                )
            ),
            jobs,
        )
        return [running for running in lower if running.key not in self._taken]

    def _reach(self, job: Job, level: Level) -> tuple[Level, Placement] | None:
        """Return the largest level, from ``level`` up, so that the gang would fit if all of larger ones were gone, and
        where it would; None if it would not fit even if all were gone that may have to make way."""
        below = self._books.preemptible.levels_below(level)
        if not below:
            return None
        floors = [level, *below[:-1]]
        found = None
        low, high = 0, len(floors)
        while low < high:  # the first floor is the most generous: what fits at one fits at those before it
            middle = 0 if found is None else (low + high) // 2
            placement = self._books.policies.placement.place(
                job, self._books.room(View(below=floors[middle]))
            )
            if placement is None:
                high = middle
            else:
                found, low = (floors[middle], placement), middle + 1
        return found
