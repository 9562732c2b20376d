"""The Gittins index of a job, from the services of jobs that have ended.

The index of a job that has attained service a, over a quantum D, is its probability to end within the next D over its
expected service within them:

    G(a) = P(S - a <= D | S > a) / E[min(S - a, D) | S > a]

(Gittins, 1989; Tiresias, NSDI'19, section 3.2.2). Tiresias' simulator sums S instead of S - a, which makes an old job's index
far too small, and uses the row of the next larger sample, as if the job were about to end there. Here a job keeps the index
of the last sample that it outran, because nothing is learnt about it until the next one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import exp, log
from statistics import NormalDist

from laneway.scheduling.model.past_services import PastServices


@dataclass(frozen=True, slots=True)
class GittinsTable:
    """The index by attained service, as steps."""

    samples_gpu_seconds: tuple[float, ...]
    """The services at which it changes; rising."""

    indexes: tuple[float, ...]
    """Ends per GPU-second: below the first sample, then from each sample on; the last is 0, because no job was served
    longer."""

    def index(self, attained_gpu_seconds: float) -> float:
        """Return the index of a job with this service."""
        return self.indexes[bisect_right(self.samples_gpu_seconds, attained_gpu_seconds)]


@lru_cache(maxsize=8)
def gittins_table(samples_gpu_seconds: tuple[float, ...], quantum_gpu_seconds: float) -> GittinsTable:
    """Return the index of a distribution; n log n, and once for each.

    Args:
        samples_gpu_seconds: services of jobs that have ended, above 0, in any order; at least one.
        quantum_gpu_seconds: how far the index looks ahead.
    """
    samples = sorted(samples_gpu_seconds)
    sums = list(accumulate(samples, initial=0.0))
    steps = sorted(set(samples))

    def index(attained: float) -> float:
        first = bisect_right(samples, attained)
        beyond = bisect_right(samples, attained + quantum_gpu_seconds)
        end = sums[beyond] - sums[first] - attained * (beyond - first)
        go_on = quantum_gpu_seconds * (len(samples) - beyond)
        return (beyond - first) / (
            end + go_on
        )  # both are means over the remaining samples: their number cancels out

    return GittinsTable(tuple(steps), (index(0.0), *(index(step) for step in steps[:-1]), 0.0))


@lru_cache(maxsize=8)
def learnt_table(past: PastServices, quantum_gpu_seconds: float) -> GittinsTable:
    """Return the index of the services that ended jobs had, as if they were spread evenly inside each bin.

    It changes at the bounds of bins, and a quantum before a bin.

    Args:
        past: at least one job has completed.
        quantum_gpu_seconds: how far the index looks ahead.
    """
    ended = _Ended(past.distribution())
    ahead = (bound - quantum_gpu_seconds for bound in ended.bounds)
    steps = sorted({*ended.bounds, *(step for step in ahead if step > 0)})

    def index(attained: float) -> float:
        until = attained + quantum_gpu_seconds
        return (ended.ratio(until) - ended.ratio(attained)) / (
            ended.expected(until) - ended.expected(attained)
        )

    last = steps.index(ended.bounds[-1])
    return GittinsTable(tuple(steps[: last + 1]), (index(0.0), *(index(step) for step in steps[:last]), 0.0))


class _Ended:
    """The part of jobs that have ended by a service: it rises evenly between bounds."""

    def __init__(self, bins: Sequence[tuple[float, float, float]]) -> None:
        """Add up bins, given by their lower and upper bounds and their probability."""
        self.bounds, self._ratios, self._expected = [0.0], [0.0], [0.0]
        for low, high, probability in bins:
            self._extend(low, 0.0)
            self._extend(high, probability)

    def ratio(self, service: float) -> float:
        """Return the part of jobs that need at most this service."""
        at = bisect_right(self.bounds, service) - 1
        if at == len(self.bounds) - 1:
            return self._ratios[-1]
        part = (service - self.bounds[at]) / (self.bounds[at + 1] - self.bounds[at])
        return self._ratios[at] + part * (self._ratios[at + 1] - self._ratios[at])

    def expected(self, service: float) -> float:
        """Return the mean of what jobs need up to this service."""
        at = bisect_right(self.bounds, service) - 1
        return self._expected[at] + self._mean_left(at, service)

    def _mean_left(self, at: int, service: float) -> float:
        return (service - self.bounds[at]) * (1 - (self._ratios[at] + self.ratio(service)) / 2)

    def _extend(self, bound: float, probability: float) -> None:
        if bound == self.bounds[-1]:
            return
        last = len(self.bounds) - 1
        ratio = self._ratios[last] + probability
        self._expected.append(
            self._expected[last] + (bound - self.bounds[last]) * (1 - (self._ratios[last] + ratio) / 2)
        )
        self.bounds.append(bound)
        self._ratios.append(ratio)


@lru_cache(maxsize=8)
def log_normal_samples(
    median_gpu_seconds: float, p95_gpu_seconds: float, count: int = 1000
) -> tuple[float, ...]:
    """Return quantiles of the log-normal distribution with this median and 95th percentile, evenly spaced."""
    normal = NormalDist()
    sigma = log(p95_gpu_seconds / median_gpu_seconds) / normal.inv_cdf(0.95)
    return tuple(
        median_gpu_seconds * exp(sigma * normal.inv_cdf((rank + 0.5) / count)) for rank in range(count)
    )
