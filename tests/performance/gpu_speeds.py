"""How wrong the estimated speed of a template on another GPU model is, on published measurements.

    python -m tests.performance.gpu_speeds --traces ../shared/traces -o gpu-speeds.json

Gavel's throughputs of training jobs on one K80, P100 and V100 (OSDI'20), and NeuSight's latencies of transformers on five GPUs
(ASPLOS'25; most are of inference). For each pair of models and each workload that ran on both, its time on the second is estimated from its
time on the first: by the other workloads, without those of the same network (another batch size is nearly the same workload), and
by the data sheets alone. The error is the mean factor between estimate and measurement, less 1.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean

from laneway.scheduling.model.gpu_speed import IterationSeconds, Measured, estimated_speeds
from laneway.simulator.gavel_throughputs import ALONE, read_throughputs

from tests.performance.result_file import write_outcomes

GAVEL_FILES = ("gavel/physical_cluster_throughputs.json", "gavel/simulation_throughputs.json")
NEUSIGHT = "neusight/label"
ACROSS_NODES = "_unconsolidated"

Workloads = Mapping[str, Measured]
"""Measurements by name; the name begins with that of the network."""


@dataclass(frozen=True, slots=True)
class PairError:
    """The errors of estimates for one GPU model from another one; they are the same the other way round."""

    data: str
    source: str
    model: str
    workloads: int
    by_others_percent: float | None
    """None: no other network ran on both."""

    by_peaks_percent: float


def outcomes(traces: Path) -> Iterator[PairError]:
    """Yield the error of each pair of models."""
    data = {name: _gavel(traces / name) for name in GAVEL_FILES}
    data[NEUSIGHT] = _neusight(traces / NEUSIGHT)
    for name, workloads in data.items():
        yield from _errors(name, workloads)


def _errors(data: str, workloads: Workloads) -> Iterator[PairError]:
    models = sorted({model for measured in workloads.values() for model in measured})
    for source, model in combinations(models, 2):
        both = {
            name: measured for name, measured in workloads.items() if source in measured and model in measured
        }
        if not both:
            continue
        by_others, by_peaks = [], []
        for name, measured in both.items():
            own = {source: measured[source]}
            others = [other for each, other in both.items() if _network(each) != _network(name)]
            by_peaks.append(_log_error(own, [], model, measured))
            if others:
                by_others.append(_log_error(own, others, model, measured))
        yield PairError(
            data,
            source,
            model,
            len(both),
            _percent(by_others) if by_others else None,
            _percent(by_peaks),
        )


def _log_error(own: Measured, others: Sequence[Measured], model: str, truth: Measured) -> float:
    (speed,) = estimated_speeds([model], own, others)
    return abs(math.log(speed.per_second * truth[model].gpu))


def _percent(logs: Sequence[float]) -> float:
    return 100 * (math.exp(fmean(logs)) - 1)


def _network(name: str) -> str:
    return re.split(r" \(|-", name)[0]


def _gavel(path: Path) -> Workloads:
    """Read the workloads on one GPU that were measured, in iterations a second."""
    found: dict[str, dict[str, IterationSeconds]] = defaultdict(dict)
    for model, jobs in read_throughputs(path).items():
        for job, speeds in jobs.items():
            per_second = float(str(speeds[ALONE]))
            if ACROSS_NODES not in model and job.endswith(", 1)") and per_second > 0:
                found[job.strip("('")][model] = IterationSeconds(1 / per_second)
    return found


def _neusight(folder: Path) -> Workloads:
    """Read the workloads that were measured, without those with fused kernels: they ran on one GPU only."""
    found: dict[str, dict[str, IterationSeconds]] = defaultdict(dict)
    for path in sorted(folder.glob("*/*.json")):
        if not path.stem.endswith("-fusion"):
            milliseconds = json.loads(path.read_text(encoding="utf-8"))["e2e_latency"]
            found[path.stem][path.parent.name] = IterationSeconds(milliseconds / 1000)
    return found


if __name__ == "__main__":
    write_outcomes(outcomes, "gavel/ and neusight/")
