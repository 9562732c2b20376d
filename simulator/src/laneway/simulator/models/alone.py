"""Every job gets on as in its trace, whoever else is on its GPUs: the model of Tiresias' simulator."""

from __future__ import annotations

from dataclasses import dataclass

from laneway.simulator.models.speed_model import Changes, Occupancy, Speed


@dataclass(frozen=True, slots=True)
class Alone:
    """Speed 1."""

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return 1 for each."""
        return dict.fromkeys(changes.runs, Speed())
