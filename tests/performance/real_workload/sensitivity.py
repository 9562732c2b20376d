"""How much the prediction depends on the accuracy of the measured costs.

Thresholds decide which job is preempted, so a difference of a second can move a gang to the other end of the queue. Predictions
for single jobs therefore vary; predicted averages are steadier. Here the prediction is repeated many times, each time with
every cost off by a random percentage.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

from laneway.simulator.records import Records

from tests.performance.real_workload.calibration import MeasuredCosts
from tests.performance.real_workload.prediction import figures, predict
from tests.performance.real_workload.workload import WorkloadJob

OFF_RATIO = 0.15
_SEED = 1
_TIMES = 25


def sensitivity(records: Records, workload: Sequence[WorkloadJob], measured: MeasuredCosts) -> dict[str, Any]:
    """Return mean and standard deviation of the prediction's errors when the costs are off by up to 15 percent."""
    randomness = random.Random(_SEED)
    errors: dict[str, list[float]] = {"error_average_jct_percent": [], "error_makespan_percent": []}
    for _ in range(_TIMES):
        found = figures(records, predict(records, workload, _off(measured, randomness)))
        for name, values in errors.items():
            values.append(found[name])
    return {
        "costs_off_by_up_to_ratio": OFF_RATIO,
        "predictions": _TIMES,
        **{name: {"mean": fmean(values), "deviation": stdev(values)} for name, values in errors.items()},
    }


def _off(measured: MeasuredCosts, randomness: random.Random) -> MeasuredCosts:
    def off(seconds: float) -> float:
        return seconds * randomness.uniform(1 - OFF_RATIO, 1 + OFF_RATIO)

    def each_off(seconds_by_workers: Mapping[int, float]) -> dict[int, float]:
        return {workers: off(seconds) for workers, seconds in seconds_by_workers.items()}

    return replace(
        measured,
        start_seconds=off(measured.start_seconds),
        setup_seconds_by_workers=each_off(measured.setup_seconds_by_workers),
        exit_seconds_by_workers=each_off(measured.exit_seconds_by_workers),
        notice_seconds=off(measured.notice_seconds),
        end_seconds=off(measured.end_seconds),
        leave_seconds=off(measured.leave_seconds),
    )
