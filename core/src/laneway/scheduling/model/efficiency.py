"""Statistical efficiency: training progress per sample, against the initial batch size (Pollux, OSDI'21, section 3.1).

Where the gradients of single samples differ much (a large noise scale), a larger batch costs little. Where they agree, most
of a larger batch is wasted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Number = TypeVar("Number", float, NDArray[np.float64])
else:
    Number = TypeVar("Number")


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Statistical efficiency as a function of the batch size."""

    initial_batch: int
    """M0: samples a step, over all replicas, at which the user would train on one GPU."""

    noise_scale: float
    """phi, the pre-conditioned gradient noise scale, in samples."""

    def __post_init__(self) -> None:
        if self.initial_batch < 1:
            raise ValueError(f"initial_batch is {self.initial_batch}: write 1 or more")
        if not self.noise_scale >= 0:
            raise ValueError(f"noise_scale is {self.noise_scale}: write 0 or more")

    @classmethod
    def from_gradients(cls, initial_batch: int, grad_sqr: float, grad_var: float) -> Efficiency:
        """Return the efficiency that gradient statistics show.

        Args:
            initial_batch: M0.
            grad_sqr: the squared norm of the true gradient, estimated.
            grad_var: the variance of the gradient of a batch of M0 samples, estimated, summed over its components.
                A ``grad_sqr`` of 0 or less, as estimates near convergence may be, counts as endless noise.
        """
        least = 1e-12 * max(grad_var, 0.0)
        if grad_var <= 0:
            return cls(initial_batch, 0.0)
        return cls(initial_batch, initial_batch * grad_var / max(grad_sqr, least))

    def at(self, batch: Number) -> Number:
        """Return (phi + M0) / (phi + M): 1 at the initial batch, less beyond it."""
        return (self.noise_scale + self.initial_batch) / (self.noise_scale + batch)
