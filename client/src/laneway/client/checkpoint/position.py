"""Where a training is, in steps, epochs and batches, and in its random numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


@dataclass
class Position:
    """What a rank has to know to go on exactly there."""

    boundary: int = 0
    """How many boundaries the job has come to: ends of steps and of epochs."""
    step: int = 0
    epoch: int = 0
    batch: int = 0
    """Of this epoch's batches, how many were trained."""
    epoch_random: dict[str, Any] = field(default_factory=dict)
    """The random state when the epoch began, and when the pass over its batches did: what is done again up to the next batch has to draw the same."""
    pass_random: dict[str, Any] = field(default_factory=dict)

    def saved(self) -> dict[str, Any]:
        """All of it, in plain types."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Position:
        """Made of what `saved` returned."""
        return cls(**{entry.name: state[entry.name] for entry in fields(cls)})

    def for_other_ranks(self, before: int, now: int) -> Position:
        """The same place for another number of ranks: about as many samples seen, nothing known of random numbers."""
        return Position(self.boundary, self.step, self.epoch, self.batch * before // now)
