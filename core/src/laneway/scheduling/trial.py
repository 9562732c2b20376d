"""Tries who would have to make way for a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from laneway.scheduling.ledger import Kind, Ledger
from laneway.scheduling.plan_types import Depth
from laneway.scheduling.snapshot import Job, WorkerPlacement

Placement = tuple[WorkerPlacement, ...]
Depths = Mapping[str, Depth]
"""By job: how far it makes way. Who is not named ends."""

ALL_END: Depths = MappingProxyType({})


class Trial:
    """Lets jobs depart and stay, as far as what is free later is concerned; between questions, only those move in whom the
    questions differ. It ends with :meth:`conclude`; until then nothing else may be asked of the ledger."""

    def __init__(self, ledger: Ledger, place: Callable[[], Placement | None]) -> None:
        """Prepare a trial.

        Args:
            ledger: it is changed while the trial goes on.
            place: where the job would be placed in what the departed leave.
        """
        self._ledger = ledger
        self._place = place
        self._gone: dict[str, Kind] = {}
        self._answer: tuple[Placement | None] | None = None
        """Where the gang would go as things are supposed now; None: it was not asked since they changed."""

    def fits_without(self, victims: Sequence[Job]) -> bool:
        """Whether the gang would fit if these jobs were gone, and no others."""
        return self.placed_without(victims) is not None

    def in_the_way(self, victims: Sequence[Job]) -> list[Job]:
        """Return those of the victims that hold GPUs where the gang would go if all of them were gone."""
        placement = self.placed_without(victims)
        if placement is None:
            return list(victims)
        there = set(self._ledger.departing_from(placement))
        return [victim for victim in victims if victim.key in there]

    def placed_without(self, victims: Sequence[Job], depths: Depths = ALL_END) -> Placement | None:
        """Return where the gang would go if these jobs made way so far."""
        self._suppose(victims, depths)
        if self._answer is None:
            self._answer = (self._place(),)
        return self._answer[0]

    def conclude(self, victims: Sequence[Job], depths: Depths = ALL_END) -> None:
        """Have these jobs make way for good, and all others stay."""
        self._suppose(victims, depths)
        for key in self._gone:
            self._ledger.depart(key, depths.get(key, Depth.EVICT))
        self._gone.clear()

    def _suppose(self, victims: Sequence[Job], depths: Depths) -> None:
        wanted = {victim.key for victim in victims}
        for key in [key for key in self._gone if key not in wanted]:
            self._ledger.try_as(key, self._gone.pop(key), Depth.EVICT)
            self._answer = None
        for key in wanted:
            entry, depth = self._ledger.entries[key], depths.get(key, Depth.EVICT)
            if key not in self._gone or entry.depth is not depth:
                self._gone.setdefault(key, entry.kind)
                self._ledger.try_as(key, Kind.DEPARTING, depth)
                self._answer = None
