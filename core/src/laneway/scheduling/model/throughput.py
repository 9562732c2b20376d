"""How long one step of a data-parallel job takes, by its placement and batch size (Pollux, OSDI'21, section 3.2).

A replica computes gradients in a time that grows linearly with its batch. Replicas then average them over the network, in a
time that depends on whether they share a node and grows with their number beyond two. The two overlap to some degree: with
gamma 1 they run one after the other, and a large gamma hides the shorter behind the longer.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Number = TypeVar("Number", float, NDArray[np.float64])
else:
    Number = TypeVar("Number")

MAX_GAMMA = 10.0
"""From this gamma on, the sum of powers is practically the larger of the two times (Pollux, section 3.2)."""


@dataclass(frozen=True, slots=True)
class ThroughputModel:
    """The seven parameters of the step time. All are 0 or more, gamma is 1 to 10."""

    compute_seconds: float
    """alpha_c: the part of forward and backward pass that does not depend on the batch."""

    compute_seconds_per_sample: float
    """beta_c: for each sample of a replica's batch."""

    internode_seconds: float = 0.0
    """alpha_n: averaging gradients where replicas are on more than one node."""

    internode_seconds_per_replica: float = 0.0
    """beta_n: for each replica beyond two."""

    intranode_seconds: float = 0.0
    """alpha_r: averaging gradients within one node."""

    intranode_seconds_per_replica: float = 0.0
    """beta_r: for each replica beyond two."""

    gamma: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise ValueError(f"{field.name} is {getattr(self, field.name)}: write 0 or more")
        if not 1 <= self.gamma <= MAX_GAMMA:
            raise ValueError(f"gamma is {self.gamma}: write 1 to {MAX_GAMMA:g}")
        if self.compute_seconds + self.compute_seconds_per_sample == 0:
            raise ValueError("compute_seconds and compute_seconds_per_sample are both 0: a step takes time")

    def pass_seconds(self, local_batch: Number) -> Number:
        """Return T_acc, the time of a forward and backward pass over ``local_batch`` samples."""
        return self.compute_seconds + self.compute_seconds_per_sample * local_batch

    def network_seconds(self, nodes: int, replicas: int) -> float:
        """Return T_net, the time to average gradients over ``replicas`` that are on ``nodes`` nodes."""
        beyond_two = max(0, replicas - 2)
        if nodes > 1:
            return self.internode_seconds + self.internode_seconds_per_replica * beyond_two
        if replicas > 1:
            return self.intranode_seconds + self.intranode_seconds_per_replica * beyond_two
        return 0.0

    def step_seconds(
        self, local_batch: Number, accumulated_passes: Number, network_seconds: Number
    ) -> Number:
        """Return T_step: passes whose gradients are only added up, then one whose gradients are averaged.

        Args:
            local_batch: samples of a replica in one pass.
            accumulated_passes: passes before the one that ends the step; 0: no gradient accumulation.
            network_seconds: what :meth:`network_seconds` says.
        """
        one_pass = self.pass_seconds(local_batch)
        overlapped: Number = (one_pass**self.gamma + network_seconds**self.gamma) ** (1 / self.gamma)
        return accumulated_passes * one_pass + overlapped
