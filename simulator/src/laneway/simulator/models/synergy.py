"""Speeds by the CPUs and the host memory of jobs.

``SENSITIVITIES`` are Synergy's measurements (Mohan et al., OSDI'22, sections 2 and 5.1; https://github.com/msr-fiddle/synergy,
``simulator/models/*_1.py``) on a node of 8 V100 GPUs, 24 CPUs and 500 GB: for each model its best demand, and how much faster it
trains with that than with its proportional share, 3 CPUs and 62.5 GB per GPU. Between the two, throughput is linear, as in Synergy's own simulator (``add_synergy_profile``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from laneway.scheduling import WorkerPlacement
from laneway.scheduling.allocation.policy import PlacedWorker
from laneway.scheduling.allocation.shares import throughput_ratio
from laneway.scheduling.model.plan import WorkerAllotment
from laneway.scheduling.model.sensitivity import MeasuredSensitivity, Sensitivity
from laneway.simulator.models.alone import workers_ratio
from laneway.simulator.models.speed_model import Changes, Occupancy, Speed

GIB = 2**30
SHARE_CPU_MILLIS = 3000
SHARE_MEMORY_BYTES = 125 * GIB // 2
"""Per GPU, of the node on which Synergy measured."""


class _Measured(NamedTuple):
    """One model's best demand per GPU, and its throughput relative to the proportional share."""

    cpus: int
    memory_gib: float
    speedup: float
    """With its best demand."""

    speedup_without_memory: float
    """With the CPUs of its best demand and the memory of its share."""


_MEASURED = {
    "alexnet": _Measured(12, 125, 2.94, 2.0),
    "deepspeech": _Measured(3, 62.5, 1.0, 1.0),
    "gnmt": _Measured(1, 20, 1.0, 1.0),
    "lstm": _Measured(1, 20, 1.0, 1.0),
    "m5": _Measured(6, 187.5, 2.5, 1.5),
    "mobilenet": _Measured(6, 62.5, 1.55, 1.55),
    "res18": _Measured(9, 62.5, 2.4, 2.4),
    "res50": _Measured(4, 62.5, 1.15, 1.15),
    "shufflenet": _Measured(12, 125, 2.89, 2.0),
    "transformer": _Measured(1, 20, 1.0, 1.0),
}


def _sensitivity(measured: _Measured) -> Sensitivity:
    cpu_millis, memory_bytes = 1000 * measured.cpus, int(measured.memory_gib * GIB)
    if measured.speedup == 1:
        return MeasuredSensitivity.from_throughputs({(cpu_millis, memory_bytes): 1.0})
    return MeasuredSensitivity.from_throughputs(
        {
            (SHARE_CPU_MILLIS, SHARE_MEMORY_BYTES): 1.0,
            (SHARE_CPU_MILLIS, memory_bytes): 1.0,
            (cpu_millis, SHARE_MEMORY_BYTES): measured.speedup_without_memory,
            (cpu_millis, memory_bytes): measured.speedup,
        }
    )


SENSITIVITIES: Mapping[str, Sensitivity] = MappingProxyType(
    {name: _sensitivity(measured) for name, measured in _MEASURED.items()}
)
"""By the name of the model in Synergy's traces."""


@dataclass(frozen=True, slots=True)
class Synergy:
    """Speeds from sensitivity profiles. A job without a profile or an allotment runs as in its trace."""

    share_cpu_millis: int = SHARE_CPU_MILLIS
    """CPUs per GPU for which the trace's durations were counted."""

    share_memory_bytes: int = SHARE_MEMORY_BYTES
    """Memory per GPU for which the trace's durations were counted."""

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return the speeds of the changed runs: a job's CPUs are its own, regardless of other jobs on its GPUs."""
        speeds: dict[str, Speed] = {}
        for key in changes.runs:
            run = occupancy.run(key)
            ratio = workers_ratio(key, occupancy)
            if run.job.sensitivity is not None and run.allotments:
                ratio *= self.speed_ratio(run.job.sensitivity, run.placement, run.allotments)
            speeds[key] = Speed(ratio)
        return speeds

    def speed_ratio(
        self,
        sensitivity: Sensitivity,
        placement: tuple[WorkerPlacement, ...],
        allotments: tuple[WorkerAllotment, ...],
    ) -> float:
        """Return a gang's speed with its allotment, relative to the trace's share.

        Raises:
            ValueError: it does not run at all with that share.
        """
        with_share = sensitivity.ratio(self.share_cpu_millis, self.share_memory_bytes)
        if with_share <= 0:
            raise ValueError(
                f"with {self.share_cpu_millis} CPU millis and {self.share_memory_bytes} bytes per GPU the job has no "
                "throughput: give the share for which the trace's durations were counted"
            )
        workers = tuple(
            PlacedWorker(worker.worker, worker.node, worker.share_percent * len(worker.gpus))
            for worker in placement
        )
        return throughput_ratio(sensitivity, workers, allotments) / with_share
