"""Fits the throughput model to a job's measured step times (Pollux, OSDI'21, sections 3.2 and 4.1).

The error is logarithmic, so that a step of a millisecond counts as much as one of a minute. Configurations that a job has not
tried are assumed to scale perfectly, so the allocator tries them. Each trial then corrects the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from laneway.scheduling.elastic.descent import Slope, minimise
from laneway.scheduling.model.throughput import MAX_GAMMA, ThroughputModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

LEAST_SECONDS = 1e-8
"""Replaces 0 while fitting, because logarithms are taken."""

GAMMA_WEIGHT = 1e-3
"""Regularises gamma towards 1, where the other parameters are easiest to separate (as in Pollux's own fit)."""

GROWTH_WEIGHT = 1e-2
"""Regularises the network time's growth with replicas towards 0, so that the model favours trying more of them (likewise)."""

NETWORK_MARGIN = 1.1
"""The ratio of network time between nodes to that within a node while the former is unmeasured: enough to prefer one node
(likewise)."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One configuration in which a job has run, with its step time."""

    nodes: int
    replicas: int
    local_batch: int
    """Samples per replica and pass."""

    step_seconds: float
    """The time of a pass whose gradients are averaged over the replicas."""

    pass_seconds: float | None = None
    """The time of forward and backward alone, if gradient accumulation has shown it."""

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


LOSS_TOLERANCE = 1e-5
"""Fitting ends when steps reduce the loss by less than this fraction."""


def fit(measurements: Sequence[Measurement], start: ThroughputModel | None = None) -> ThroughputModel:
    """Return the model with the least error for the measurements, which may be in any order.

    Args:
        measurements: one for each configuration tried.
        start: the starting point; a model fitted to most of these measurements halves the time.

    Raises:
        ValueError: there are none.
    """
    if not measurements:
        raise ValueError("there is no measurement: fit a model when the job has run")
    import numpy as np

    loss = _Loss(sorted(measurements, key=_order))
    first, bounds = loss.start_and_bounds()
    if start is not None:
        first = _from_model(start, first, bounds)
    lower, upper = np.array(bounds).T
    found = minimise(loss.slope_at, np.array(first), lower, upper, LOSS_TOLERANCE)
    return loss.model([float(value) for value in found])


def _order(measured: Measurement) -> tuple[float, ...]:
    pass_seconds = -1.0 if measured.pass_seconds is None else measured.pass_seconds
    return (measured.nodes, measured.replicas, measured.local_batch, measured.step_seconds, pass_seconds)


def _from_model(
    model: ThroughputModel, otherwise: Sequence[float], bounds: Sequence[tuple[float, float]]
) -> list[float]:
    """Return a model as a vector; fixed and unmeasured parameters are taken from ``otherwise``."""
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
        """Return the starting point and the bounds; parameters that no measurement determines keep their starting values."""
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

    def slope_at(self, vector: Vector) -> Slope:
        """Return the loss, its gradient and its Gauss-Newton curvature."""
        np = self._np
        gamma, parts = float(vector[6]), np.exp(vector[:6])
        passes = parts[0] + parts[1] * self._batch
        network = (
            np.where(self._internode, parts[2], np.where(self._intranode, parts[4], 0.0))
            + np.where(self._internode, parts[3], parts[5]) * self._beyond_two
        )
        network = np.maximum(network, LEAST_SECONDS)
        log_pass, log_network = np.log(passes), np.log(network)
        log_step = np.logaddexp(gamma * log_pass, gamma * log_network) / gamma
        share = 1 / (1 + np.exp(np.clip(gamma * (log_network - log_pass), -700, 700)))

        by_pass = np.zeros((len(passes), 7))
        by_pass[:, 0] = parts[0] / passes
        by_pass[:, 1] = parts[1] * self._batch / passes
        by_step = share[:, None] * by_pass
        for first, where in ((2, self._internode), (4, self._intranode)):
            by_step[:, first] = where * (1 - share) * parts[first] / network
            by_step[:, first + 1] = where * (1 - share) * parts[first + 1] * self._beyond_two / network
        by_step[:, 6] = (share * log_pass + (1 - share) * log_network - log_step) / gamma
        known = self._pass_known
        return _sum(
            self._error(log_step - self._log_step, by_step),
            self._error((log_pass - self._log_pass)[known], by_pass[known]),
            *self._preferences(parts, gamma),
        )

    def _error(self, residuals: Vector, slopes: Vector) -> Slope:
        """Return the root mean square of the residuals, smoothed near 0."""
        if not len(residuals):
            return Slope(0.0, self._np.zeros(7), self._np.zeros((7, 7)))
        root = math.sqrt(float(self._np.mean(residuals**2)) + 1e-10)
        each = 1 / (root * len(residuals))
        return Slope(root, each * (slopes.T @ residuals), each * (slopes.T @ slopes))

    def _preferences(self, parts: Vector, gamma: float) -> list[Slope]:
        """Return the regularisation terms of gamma and of the growth by replicas."""
        np = self._np
        found = [_square(math.sqrt(GAMMA_WEIGHT) * (gamma - 1), {6: math.sqrt(GAMMA_WEIGHT)}, np.zeros(7))]
        for first, where in ((2, self._internode), (4, self._intranode)):
            if where.any():
                growth = math.sqrt(GROWTH_WEIGHT) * float(parts[first + 1] / parts[first])
                found.append(_square(growth, {first: -growth, first + 1: growth}, np.zeros(7)))
        return found

    def model(self, vector: Sequence[float]) -> ThroughputModel:
        """Return the model of a vector; unmeasured times between nodes are slightly worse than within a node."""
        compute, per_sample, *network = (
            0.0 if value <= math.log(2 * LEAST_SECONDS) else math.exp(value) for value in vector[:6]
        )
        if not self._internode.any():
            network[0] = max(network[0], NETWORK_MARGIN * network[2])
            network[1] = max(network[1], NETWORK_MARGIN * network[3])
        gamma = min(max(vector[6], 1.0), MAX_GAMMA)
        return ThroughputModel(compute, per_sample, network[0], network[1], network[2], network[3], gamma)


def _square(residual: float, slopes: Mapping[int, float], zeros: Vector) -> Slope:
    for parameter, slope in slopes.items():
        zeros[parameter] = slope
    return Slope(residual**2, 2 * residual * zeros, 2 * zeros[:, None] * zeros)


def _sum(*slopes: Slope) -> Slope:
    losses, gradients, curvatures = zip(*slopes, strict=True)
    return Slope(sum(losses), sum(gradients), sum(curvatures))
