"""The summary of many latencies."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def summary(times_us: Sequence[float]) -> dict[str, float]:
    """Return count, p50, p90, p99 and the largest, in microseconds.

    Raises:
        ValueError: fewer than two latencies were measured.
    """
    if len(times_us) < 2:
        raise ValueError(f"{len(times_us)} latencies were measured: that is too few to tell anything")
    hundredths = statistics.quantiles(times_us, n=100)
    return {
        "count": len(times_us),
        "p50_us": round(hundredths[49], 1),
        "p90_us": round(hundredths[89], 1),
        "p99_us": round(hundredths[98], 1),
        "largest_us": round(max(times_us), 1),
    }
