"""The position of a training: steps, epochs, batches and random numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


@dataclass
class Position:
    """What a rank needs to continue at exactly the same point."""

    boundary: int = 0
    """The number of boundaries so far: ends of steps and of epochs."""
    step: int = 0
    epoch: int = 0
    batch: int = 0
    """The number of batches of this epoch that were trained."""
    epoch_random: dict[str, Any] = field(default_factory=dict)
    """The random state at the start of the epoch, and of the pass over its batches: what is repeated must
    draw the same numbers."""
    pass_random: dict[str, Any] = field(default_factory=dict)

    def saved(self) -> dict[str, Any]:
        """Returns all fields in plain types."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Position:
        """Restores what `saved` returned."""
        return cls(**{entry.name: state[entry.name] for entry in fields(cls)})

    def for_other_ranks(self, before: int, now: int) -> Position:
        """Returns the same position for another number of ranks: about as many samples seen, and no random
        numbers."""
        return Position(self.boundary, self.step, self.epoch, self.batch * before // now)
