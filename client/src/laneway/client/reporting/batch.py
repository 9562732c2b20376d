"""What is known of a training's batch and of its gradients, for the cluster's elastic policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

CHANGE_PERCENT = 5
"""By how much the noise scale has to change before it is news."""


@dataclass
class BatchReport:
    """The fields of the message `report` that describe the batch. Batches are in samples; 0: not known."""

    ranks: int = 1
    """The processes that average their gradients."""
    local_batch: int = 0
    """Of one rank in one backward pass."""
    passes: int = 0
    """Backward passes of a step."""
    initial_batch: int = 0
    """Of all ranks, for which the script chose its learning rate; the batch of now where it does not grow."""
    max_batch: int = 0
    """Of all ranks, the most that the script allows."""
    max_local_batch: int = 0
    """The most that the script allows in one pass."""
    noise_scale: Optional[float] = None
    """The gradient noise scale."""
    declared: bool = False
    """The script said it (`laneway.client.batch_size`), so nothing is measured."""

    @property
    def batch(self) -> int:
        """The samples of a step of all ranks."""
        return self.ranks * self.local_batch * self.passes

    def declare(
        self,
        ranks: int,
        local_batch: int,
        passes: int,
        initial_batch: int,
        max_batch: Optional[int],
        max_local_batch: Optional[int],
    ) -> None:
        """Takes what the script says."""
        self.declared = True
        self.ranks, self.local_batch, self.passes = ranks, local_batch, passes
        self.initial_batch = initial_batch
        self.max_batch, self.max_local_batch = max_batch or 0, max_local_batch or 0

    def observe(self, ranks: int, local_batch: int, passes: int, noise_scale: Optional[float]) -> bool:
        """Takes what was measured of an iteration; returns whether it is news."""
        before = self.fields()
        if not self.declared:
            self.ranks, self.local_batch, self.passes = ranks, local_batch, passes
        known = self.noise_scale
        if noise_scale is not None and (
            known is None or abs(noise_scale - known) * 100 > CHANGE_PERCENT * max(noise_scale, known)
        ):
            self.noise_scale = noise_scale
        return self.fields() != before

    def fields(self) -> dict[str, Any]:
        """Returns the message's fields; none while the batch is not known."""
        if not self.batch:
            return {}
        return {
            "ranks": self.ranks,
            "local_batch": self.local_batch,
            "passes": self.passes,
            "initial_batch": self.initial_batch or self.batch,
            "max_batch": max(self.max_batch, self.batch),
            # Unless the script says otherwise, one worker may take the whole batch.
            "max_local_batch": self.max_local_batch or max(self.max_batch, self.batch),
            "noise_scale": self.noise_scale,
        }
