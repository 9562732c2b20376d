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
    ranks: int = 0
    """The layout of the current pass is its number of ranks and its local batch; 0: not known."""
    local_batch: int = 0
    """Samples of one rank's batch; 0: not known."""
    divided: bool = False
    """All ranks divide one order of the epoch's samples among them (DistributedSampler)."""
    earlier_batches: int = 0
    """The batches of this epoch before the current layout, counted in batches of this layout."""
    earlier_samples: int = 0
    """The samples that all ranks together trained in them."""
    epoch_random: dict[str, Any] = field(default_factory=dict)
    """The random state at the start of the epoch, and of the pass over its batches: what is repeated must
    draw the same numbers."""
    pass_random: dict[str, Any] = field(default_factory=dict)

    def saved(self) -> dict[str, Any]:
        """Returns all fields in plain types."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Position:
        """Restores what `saved` returned, also by an earlier release, which knew no layouts."""
        return cls(**{entry.name: state[entry.name] for entry in fields(cls) if entry.name in state})

    @property
    def within_epoch(self) -> bool:
        """Whether a part of the epoch was trained."""
        return self.batch > 0 or self.earlier_samples > 0

    def has_layout(self, ranks: int, local_batch: int) -> bool:
        """Returns whether the epoch so far was trained in this layout, as far as is known."""
        return self.ranks in (0, ranks) and (not self.local_batch or self.local_batch == local_batch)

    def begin_layout(self, ranks: int, local_batch: int) -> None:
        """Continues the epoch in another layout; the samples trained so far become earlier ones."""
        trained = self.batch - self.earlier_batches
        self.earlier_samples += trained * (self.local_batch or local_batch or 1) * (self.ranks or ranks)
        self.earlier_batches = self.batch
        self.ranks, self.local_batch = ranks, local_batch

    def begin_epoch(self) -> None:
        """Goes on to the next epoch."""
        self.epoch += 1
        self.batch = self.earlier_batches = self.earlier_samples = 0
