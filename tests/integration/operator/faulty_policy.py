"""The operator, whose elastic policy takes long or raises an error for jobs with such names."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

from laneway.operator.main import main
from laneway.scheduling.elastic.policy import ElasticJob
from laneway.scheduling.elastic.pollux import Pollux

SLOW_SECONDS = 1.5
"""Less than the lease's renewal may take."""

_allot = Pollux.allot


def allot(
    self: Pollux, jobs: Sequence[ElasticJob], free_gpus: Mapping[str, int], now_seconds: float
) -> Mapping[str, int]:
    """Ask Pollux, unless a job is to be its trouble."""
    names = [job.key.partition("/")[2] for job in jobs]
    if any(name.startswith("breaks") for name in names):
        raise ZeroDivisionError("a job's speed is 0")
    if any(name.startswith("slows") for name in names):
        time.sleep(SLOW_SECONDS)
    return _allot(self, jobs, free_gpus, now_seconds)


Pollux.allot = allot  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main())
