"""Fit the throughput model to the step times that a job has shown so far (Pollux, OSDI'21, sections 3.2 and 4.1).

The error is that of the logarithms, so that a step of a millisecond counts as much as one of a minute. What a job has
not tried yet is taken to scale perfectly: that is what makes the allocator try it. Each trial then corrects the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from laneway.scheduling.elastic.throughput import MAX_GAMMA, ThroughputModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

LEAST_SECONDS = 1e-8
"""Stands for 0 while fitting, where logarithms are taken."""

GAMMA_WEIGHT = 1e-3
"""Draws gamma to 1, where the other parameters are told apart best (as Pollux's own fit does)."""

GROWTH_WEIGHT = 1e-2
"""Draws the network's growth by replicas to 0, so that the model errs to the side of trying more of them (likewise)."""

NETWORK_MARGIN = 1.1
"""Between nodes, where no job has been seen there, against within a node: enough to prefer one node (likewise)."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One configuration that a job has run in, with the time that its steps took."""

    nodes: int
    replicas: int
    local_batch: int
    """Samples of one replica in one pass."""

    step_seconds: float
    """A pass whose gradients are averaged over the replicas."""

    pass_seconds: float | None = None
    """Forward and backward alone, where that was measured: steps that accumulate gradients show it."""

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= self.replicas:
            raise ValueError(
                f"{self.replicas} replicas on {self.nodes} nodes: write 1 node or more, each with a replica"
            )
        if self.local_batch < 1:
            raise ValueError(f"local_batch is {self.local_batch}: write 1 or more")
        for name in ("step_seconds", "pass_seconds"):
            seconds = getattr(self, name)
            if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
                raise ValueError(f"{name} is {seconds}: write a time above 0")


LOSS_TOLERANCE = 1e-7
"""Fitting ends when a step lessens the loss by less than this part of it."""


def fit(measurements: Sequence[Measurement], start: ThroughputModel | None = None) -> ThroughputModel:
    """Return the model that comes closest to the measurements, which may be in any order.

    Args:
        measurements: one for each configuration that was tried.
        start: where to begin: a model of most of these measurements halves the time.

    Raises:
        ValueError: there are none.
    """
    if not measurements:
        raise ValueError("there is no measurement: fit a model when the job has run")
    from scipy.optimize import minimize

    loss = _Loss(sorted(measurements, key=_order))
    first, bounds = loss.start_and_bounds()
    if start is not None:
        first = _from_model(start, first, bounds)
    result = minimize(
        loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": LOSS_TOLERANCE}
    )
    return loss.model([float(value) for value in result.x])


def _order(measured: Measurement) -> tuple[float, ...]:
    pass_seconds = -1.0 if measured.pass_seconds is None else measured.pass_seconds
    return (measured.nodes, measured.replicas, measured.local_batch, measured.step_seconds, pass_seconds)


def _from_model(
    model: ThroughputModel, otherwise: Sequence[float], bounds: Sequence[tuple[float, float]]
) -> list[float]:
    """Return a model as a vector; parameters that are fixed, or that it knows nothing of, are as ``otherwise`` says."""
    *parts, gamma = astuple(model)
    vector = [
        math.log(part) if low < high and part > 100 * LEAST_SECONDS else default
        for part, default, (low, high) in zip(parts, otherwise, bounds, strict=False)
    ]
    return [*vector, gamma]


class _Loss:
    """Log error with its gradient, as a function of the logarithms of alpha and beta, and of gamma itself.

    The vector is (compute, per sample, internode, per replica, intranode, per replica, gamma).
    """

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        import numpy as np

        self._np = np
        self._batch = np.array([float(measured.local_batch) for measured in measurements])
        self._beyond_two = np.array([float(max(0, measured.replicas - 2)) for measured in measurements])
        self._internode = np.array([measured.nodes > 1 for measured in measurements])
        self._intranode = np.array([measured.nodes == 1 < measured.replicas for measured in measurements])
        self._log_step = np.log([measured.step_seconds for measured in measurements])
        self._pass_known = np.array([measured.pass_seconds is not None for measured in measurements])
        self._log_pass = np.log([measured.pass_seconds or 1.0 for measured in measurements])

    def start_and_bounds(self) -> tuple[list[float], list[tuple[float, float]]]:
        """Return where to begin, and between what; parameters that nothing measured tells of stay where they begin."""
        np = self._np
        known = self._pass_known
        typical = float(np.mean(np.exp(self._log_pass[known] if known.any() else self._log_step)))
        compute = math.log(typical / 2)
        per_sample = math.log(typical / 2 / float(np.mean(self._batch)))
        network = math.log(typical / 10)
        unseen = math.log(LEAST_SECONDS)
        free = (unseen, math.log(1e6))
        one_batch = len(np.unique(self._batch)) == 1
        grows = bool((self._beyond_two > 0).any())
        start = [compute, per_sample]
        bounds = [(compute, compute) if one_batch else free, free]
        for seen in (bool(self._internode.any()), bool(self._intranode.any())):
            start += [network if seen else unseen, network - math.log(10) if seen and grows else unseen]
            bounds += [free if seen else (unseen, unseen), free if seen and grows else (unseen, unseen)]
        return [*start, 1.1], [*bounds, (1.0, MAX_GAMMA)]

    def __call__(self, vector: Vector) -> tuple[float, Vector]:
        """Return the loss and its gradient."""
        np = self._np
        gamma = float(vector[6])
        parts = np.exp(vector[:6])
        passes = parts[0] + parts[1] * self._batch
        growth = np.where(self._internode, parts[3], parts[5]) * self._beyond_two
        network = np.where(self._internode, parts[2], np.where(self._intranode, parts[4], 0.0)) + growth
        network = np.maximum(network, LEAST_SECONDS)
        log_pass, log_network = np.log(passes), np.log(network)
        log_step = np.logaddexp(gamma * log_pass, gamma * log_network) / gamma
        share = 1 / (1 + np.exp(np.clip(gamma * (log_network - log_pass), -700, 700)))

        gradient = np.zeros(7)
        by_pass, by_network = np.zeros_like(passes), np.zeros_like(passes)
        error, slope = self._error(log_step - self._log_step)
        by_pass += slope * share
        by_network += slope * (1 - share)
        gradient[6] = np.sum(slope * (share * log_pass + (1 - share) * log_network - log_step)) / gamma
        if self._pass_known.any():
            pass_error, pass_slope = self._error((log_pass - self._log_pass)[self._pass_known])
            error += pass_error
            by_pass[self._pass_known] += pass_slope
        gradient[0] = np.sum(by_pass * parts[0] / passes)
        gradient[1] = np.sum(by_pass * parts[1] * self._batch / passes)
        for first, where in ((2, self._internode), (4, self._intranode)):
            gradient[first] = np.sum((by_network * parts[first] / network)[where])
            gradient[first + 1] = np.sum((by_network * parts[first + 1] * self._beyond_two / network)[where])
            ratio = (parts[first + 1] / parts[first]) ** 2
            if where.any():
                error += GROWTH_WEIGHT * ratio
                gradient[first] -= 2 * GROWTH_WEIGHT * ratio
                gradient[first + 1] += 2 * GROWTH_WEIGHT * ratio
        gradient[6] += 2 * GAMMA_WEIGHT * (gamma - 1)
        return float(error + GAMMA_WEIGHT * (gamma - 1) ** 2), gradient

    def _error(self, difference: Vector) -> tuple[float, Vector]:
        """Return the root of the mean square, and its slope by each difference; smooth where all are 0."""
        root = math.sqrt(float(self._np.mean(difference**2)) + 1e-10)
        return root, difference / (root * len(difference))

    def model(self, vector: Sequence[float]) -> ThroughputModel:
        """Return the model of a vector; what was not seen between nodes is a little worse than within one."""
        compute, per_sample, *network = (
            0.0 if value <= math.log(2 * LEAST_SECONDS) else math.exp(value) for value in vector[:6]
        )
        if not self._internode.any():
            network[0] = max(network[0], NETWORK_MARGIN * network[2])
            network[1] = max(network[1], NETWORK_MARGIN * network[3])
        gamma = min(max(vector[6], 1.0), MAX_GAMMA)
        return ThroughputModel(compute, per_sample, network[0], network[1], network[2], network[3], gamma)
