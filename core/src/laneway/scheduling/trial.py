"""Tries who would have to make way for a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laneway.scheduling.ledger import Kind, Ledger
from laneway.scheduling.plan_types import Depth
from laneway.scheduling.snapshot import Job, WorkerPlacement

Placement = tuple[WorkerPlacement, ...]


class Trial:
    """Lets jobs depart and stay in the ledger; between questions, only those move in whom the questions differ."""

    def __init__(self, ledger: Ledger, place: Callable[[], Placement | None]) -> None:
        """Prepare a trial.

        Args:
            ledger: it is changed while the trial goes on.
            place: where the job would be placed in what the departed leave.
        """
        self._ledger = ledger
        self._place = place
        self._gone: dict[str, Kind] = {}

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

    def placed_without(self, victims: Sequence[Job], depth: Depth = Depth.EVICT) -> Placement | None:
        """Return where the gang would go if these jobs made way as far as ``depth``."""
        self.settle(victims, depth)
        return self._place()

    def settle(self, victims: Sequence[Job], depth: Depth = Depth.EVICT) -> None:
        """Let these jobs have departed, and all others stay."""
        wanted = {victim.key for victim in victims}
        for key in sorted(self._gone.keys() - wanted):
            self._ledger.stay(key, self._gone.pop(key))
        for key in sorted(wanted):
            entry = self._ledger.entries[key]
            if key not in self._gone or entry.depth is not depth:
                self._gone.setdefault(key, entry.kind)
                self._ledger.depart(key, Depth.EVICT if self._gone[key] is Kind.PARKED else depth)
