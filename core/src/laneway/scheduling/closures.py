"""What did not fit, remembered from one decision to the next for as long as nothing can have changed it.

A shape is closed from the place in the order on at which a job of it found no room, neither free nor by having others make way.
It is opened again when something has become free (all are), when more jobs than before may have to make way for it, when it may
stand no longer behind one that holds it up, and when others make way for a job that goes before it: what is over may do for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from laneway.scheduling.books import Books, Exposure
from laneway.scheduling.plan_types import WaitingReason
from laneway.scheduling.standings import SortKey
from laneway.scheduling.suitability import GPUClass
from laneway.scheduling.waiting_line import Shape


@dataclass(slots=True)
class Closure:
    """Why no job of a shape, from a place in the order on, can start."""

    place: SortKey
    reason: WaitingReason | None
    """None: it is worked out when somebody asks."""

    holds_up: bool = False


class Closures:
    """The closed shapes, and who holds up others."""

    def __init__(self, books: Books) -> None:
        self.of: dict[Shape, Closure] = {}
        self.held_up: dict[GPUClass, SortKey] = {}
        """By class of GPUs: the job that lets none pass which comes after it."""

        self.barrier: SortKey | None = None
        """The job after which nobody is tried: it holds up every class of GPUs."""

        self._books = books
        self._stamp: tuple[int, int] | None = None
        """How often something had become free, and somebody had left the line, when they were written; None: they don't
        hold any more."""

    def opens(self, shape: Shape, place: SortKey) -> bool:
        """Whether a job of a shape, at a place in the order, is to be tried."""
        closure = self.of.get(shape)
        return closure is None or place < closure.place

    def holds_up(self, place: SortKey, now_seconds: float) -> bool:
        """Whether the job at a place lets nobody pass if it finds no room."""
        key = place[-1]
        order = self._books.policies.order
        return order.holds_up(self._books.jobs[key], self._books.standings.ranks[key], now_seconds)

    def hold_up(self, classes: Iterable[GPUClass], place: SortKey) -> None:
        """Let nobody after a place pass on GPUs of these classes."""
        for each in classes:
            self.held_up.setdefault(each, place)
        if len(self.held_up) == len(self._books.ledger.usable_classes):
            self.barrier = max(self.held_up.values())

    def review(self, now_seconds: float, *, something_leaves: bool) -> None:
        """Open the shapes of which one may find room now that did not.

        Args:
            now_seconds: the moment.
            something_leaves: whether jobs are to stop by this decision, for their own reasons.
        """
        books = self._books
        exposed = self._exposed()
        if (
            something_leaves
            or self._stamp != self._present()
            or books.policies.order.relative
            or books.standings.drifting
            or books.preemptible.comes_later
            or any(self.of[shape].holds_up for shape in exposed)
            or any(self._patience_ended(shape, closure, now_seconds) for shape, closure in self.of.items())
            or self._newcomer_holds_up(now_seconds)
        ):
            self.of.clear()
            self.held_up.clear()
            self.barrier = None
        for shape in exposed:
            self.of.pop(shape, None)
        if len(self.of) > 2 * len(books.line.groups) + 16:  # most are shapes of which none waits any more
            self.of = {shape: closure for shape, closure in self.of.items() if shape in books.line.groups}

    def open_after(self, place: SortKey, shapes: Iterable[Shape]) -> list[tuple[SortKey, int, Shape]]:
        """Open those of the shapes whose first job comes after a place; return the place of each, and its position among the
        waiting jobs of the shape."""
        opened = []
        for shape in shapes:
            group, first = self._first_closed(shape)
            if first < len(group) and place < group[first]:
                del self.of[shape]
                opened.append((group[first], first, shape))
        return opened

    def keep(self) -> None:
        """Let what was found stand for the next decision."""
        self._stamp = self._present()

    def drop(self) -> None:
        """Let it not stand: what the decision does will change it."""
        self._stamp = None

    def _present(self) -> tuple[int, int]:
        return (self._books.ledger.frees, self._books.departures if self.held_up else -1)

    def _exposed(self) -> list[Shape]:
        """Return the shapes of which one may have a job make way that it could not have make way when it was tried."""
        exposures = self._books.take_exposures()
        if not exposures:
            return []
        found = []
        for shape in self.of:
            group, first = self._first_closed(shape)
            if first < len(group) and any(self._lies_in(group[first], each) for each in exposures):
                found.append(shape)
        return found

    def _first_closed(self, shape: Shape) -> tuple[Sequence[SortKey], int]:
        """Return the waiting jobs of a shape, and which of them is the first that is not tried."""
        group, closure = self._books.line.groups.get(shape), self.of.get(shape)
        if group is None or closure is None:
            return (), 0
        return group, bisect_left(group, closure.place)

    def _lies_in(self, place: SortKey, exposure: Exposure) -> bool:
        before, after = exposure
        if self._books.policies.order.preempts_by_queue:
            return place[:2] < after[:2] and (before is None or before[:2] <= place[:2])
        return place < after and (before is None or before <= place)

    def _newcomer_holds_up(self, now_seconds: float) -> bool:
        """Whether a job is to be tried that may hold up some that were tried before it came."""
        last = max((closure.place for closure in self.of.values()), default=None)
        return last is not None and any(
            place < last and self.opens(shape, place) and self.holds_up(place, now_seconds)
            for place, shape in self._books.line.heads()
        )

    def _patience_ended(self, shape: Shape, closure: Closure, now_seconds: float) -> bool:
        group = self._books.line.groups.get(shape)
        if group is None or closure.reason is not None or closure.holds_up:
            return False
        return self.holds_up(group[0], now_seconds)
