"""A job's throughput at the CPUs at which it was measured, and the sensitivity profile that follows from it.

A point is the time of an iteration with a number of CPUs. A few are enough, because the profile interpolates between them (Synergy,
OSDI'22, section 3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from laneway.scheduling.model.sensitivity import MeasuredSensitivity

CPUPoints = Mapping[int, int]
"""Microseconds of an iteration, waiting for data included, by a worker's CPUs in thousandths."""

_SAME_RATIO = 0.1
"""Numbers of CPUs that differ by less are one point."""

_MOST_POINTS = 8
_NOISE_RATIO = 0.03
"""A gain by more CPUs that is smaller than this is none: measurements of the same CPUs differ by as much."""

DATA_BOUND_RATIO = 0.1
"""A job whose iterations take longer than its GPU needs for them, by at least this part, waits for data."""

_NO_MEMORY = 1
"""Memory was not measured, so every amount is enough."""


def is_measured(points: Iterable[int], cpu_millis: int) -> bool:
    """Whether there is a point at this number of CPUs, or nearly."""
    return any(abs(point - cpu_millis) <= _SAME_RATIO * max(point, cpu_millis) for point in points)


def merged(points: CPUPoints, newer: CPUPoints) -> dict[int, int]:
    """Return both; a newer point replaces those at nearly the same CPUs. Of too many, those go that say the least."""
    both = {cpus: time for cpus, time in points.items() if not is_measured(newer, cpus)} | dict(newer)
    while len(both) > _MOST_POINTS:
        rising = sorted(both)
        del both[
            min(pairwise(rising[:-1]), key=lambda pair: abs(both[pair[1]] - both[pair[0]]) / both[pair[0]])[1]
        ]
    return dict(sorted(both.items()))


def sensitivity_of(points: CPUPoints, gpu_microseconds: int, gpu_percent: int) -> MeasuredSensitivity | None:
    """Return how a job's throughput depends on CPUs; None where nothing was measured.

    One point and the GPU's part of an iteration give an estimate: while a job waits for data, it is as fast as the data is prepared,
    in proportion to its CPUs; more than its GPU needs are of no use (SALIENT++, MLSys'23, overlaps both alike).

    Args:
        points: of a worker.
        gpu_microseconds: the part of an iteration in which it does not wait for data; 0: unknown.
        gpu_percent: of GPUs, of the worker.
    """
    times = dict(sorted((cpus, time) for cpus, time in points.items() if cpus > 0 and time > 0))
    if len(times) == 1 and gpu_microseconds > 0:
        ((cpus, time),) = times.items()
        if time >= (1 + DATA_BOUND_RATIO) * gpu_microseconds:
            times[cpus * time // gpu_microseconds] = gpu_microseconds
    throughputs: dict[tuple[int, int], float] = {}
    best = 0.0
    for cpus, time in times.items():
        if 1 / time > best * (1 + _NOISE_RATIO):
            best = 1 / time
        throughputs[-(-100 * cpus // gpu_percent), _NO_MEMORY] = best
    return MeasuredSensitivity.from_throughputs(throughputs) if throughputs else None
