"""The waiting jobs, in order, grouped by shape: jobs of one shape fit or don't fit alike.

So a decision need not try them all: once the first of a shape has found no room, neither will the others.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass

from laneway.scheduling.snapshot import Demand, Job, Profile
from laneway.scheduling.standings import SortKey


@dataclass(frozen=True, eq=False, slots=True)
class Shape:
    """All that placement depends on. One object for each, so that it is compared by identity."""

    demand: Demand
    profile: Profile | None
    avoided: frozenset[int]
    """Numbers of the nodes that the job is kept away from."""


class WaitingLine:
    """Waiting jobs by shape."""

    def __init__(self) -> None:
        self.groups: dict[Shape, list[SortKey]] = {}
        """Never empty lists; rising."""

        self.shape_of: dict[str, Shape] = {}
        self._shapes: dict[tuple[Demand, Profile | None, frozenset[int]], Shape] = {}
        self._place_of: dict[str, SortKey] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._place_of

    def __len__(self) -> int:
        return len(self._place_of)

    def enter(self, job: Job, avoided: frozenset[int], place: SortKey) -> bool:
        """Let a job wait at a place; return whether that changes anything."""
        shape = self._shape(job.demand, job.profile, avoided)
        if self._place_of.get(job.key) == place and self.shape_of[job.key] is shape:
            return False
        self.leave(job.key)
        shape = self._shape(job.demand, job.profile, avoided)  # the last of a shape takes it along
        self.shape_of[job.key] = shape
        self._place_of[job.key] = place
        insort(self.groups.setdefault(shape, []), place)
        return True

    def leave(self, key: str) -> bool:
        """Let a job wait no more; return whether it did."""
        place = self._place_of.pop(key, None)
        if place is None:
            return False
        shape = self.shape_of.pop(key)
        group = self.groups[shape]
        del group[bisect_left(group, place)]
        if not group:
            del self.groups[shape]
            del self._shapes[shape.demand, shape.profile, shape.avoided]
        return True

    def heads(self) -> Iterator[tuple[SortKey, Shape]]:
        """Yield the first of each shape, in no order."""
        for shape, group in self.groups.items():
            yield group[0], shape

    def _shape(self, demand: Demand, profile: Profile | None, avoided: frozenset[int]) -> Shape:
        parts = (demand, profile, avoided)
        found = self._shapes.get(parts)
        if found is None:
            found = self._shapes[parts] = Shape(demand, profile, avoided)
        return found
