"""The Gittins index of the reference simulator, from a sample of services, with and without its defects.

Written from what ``cal_r_gittins_index`` and ``get_gittins_index`` in Tiresias' ``simulator/run_sim.py`` do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

QUANTUM_GPU_SECONDS = 3250


def stepped_index(samples: Sequence[int], *, sums_whole_services: bool) -> Callable[[float], float]:
    """Return the index by attained GPU-seconds, as the reference looks it up: the row of the next larger sample.

    A row says what the index is one GPU-second before its sample. Beyond the largest sample it is 0.

    Args:
        samples: services of past jobs, in GPU-seconds.
        sums_whole_services: whether to compute the expected service in the next quantum as the reference does: it includes the
            service already attained, is rounded down to whole GPU-seconds, and the largest sample never ends.
    """
    rising = sorted(samples)
    sums = list(accumulate(rising, initial=0))
    rows = [_row(rising, sums, sample - 1, sums_whole_services) for sample in rising]

    def index(attained_gpu_seconds: float) -> float:
        row = bisect_right(rising, attained_gpu_seconds)
        return rows[row] if row < len(rows) else 0.0

    return index


def _row(rising: Sequence[int], sums: Sequence[int], attained: int, sums_whole_services: bool) -> float:
    first = bisect_right(rising, attained)
    left = len(rising) - first
    beyond = bisect_right(rising, attained + QUANTUM_GPU_SECONDS)
    if not sums_whole_services:
        ends = sums[beyond] - sums[first] - attained * (beyond - first)
        return (beyond - first) / (ends + QUANTUM_GPU_SECONDS * (len(rising) - beyond))
    beyond = min(beyond, len(rising) - 1)
    takes = (sums[beyond] - sums[first] + QUANTUM_GPU_SECONDS * (len(rising) - beyond)) // left
    return round(round((beyond - first) / left, 5) * 1_000_000 / takes, 4)
