"""Speeds that Gavel measured: by GPU type, number of GPUs, and beside another job on the same GPUs (OSDI'20, section 3)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from laneway.scheduling.model.gpu_speed import ModelSpeed
from laneway.simulator.cluster import DEFAULT_MODEL
from laneway.simulator.gavel_throughputs import ALONE, Throughputs, read_throughputs
from laneway.simulator.models.speed_model import Changes, Occupancy, Running, Speed
from laneway.simulator.trace import TraceJob

UNCONSOLIDATED = "_unconsolidated"
"""Appended to a GPU type for workers on several nodes."""


@dataclass(eq=False)
class Gavel:
    """Speeds from measured throughputs.

    A trace's durations are measured alone on the trace's GPU type. With three or more jobs on a GPU, each job is slowed down by every
    other as in a pair. A pair that was not measured takes turns. A gang is as fast as its slowest GPU.
    """

    throughputs: str = ""
    """The file of throughputs."""

    gpu_type: str = "v100"
    """The GPU type of the trace's durations, and of nodes whose GPUs name no model."""

    _throughputs: Throughputs = field(init=False, repr=False)
    _ratios: dict[tuple[str, str, str], float] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not self.throughputs:
            raise ValueError("the model gavel needs a file of throughputs: write throughputs=FILE")
        self._throughputs = read_throughputs(Path(self.throughputs))
        self._check_type(self.gpu_type)

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return the speeds of all jobs on the changed GPUs.

        Raises:
            ValueError: the type of a job or a GPU was not measured.
        """
        keys = dict.fromkeys(changes.runs)
        for uuid in changes.gpus:
            keys.update(dict.fromkeys(occupancy.on_gpu(uuid)))
        return {key: self._speed(key, occupancy) for key in keys}

    def speeds_on(self, job: TraceJob, models: Collection[str]) -> tuple[ModelSpeed, ...]:
        """Return how fast a job runs alone on GPUs of these models, by name; without those on which it cannot run.

        Raises:
            ValueError: the type of the job or of a GPU was not measured.
        """
        job_type = _type_name(job.model, job.demand.gpus)
        alone = {model: self._alone(self._gpu_type(model), job_type) for model in sorted(models)}
        return tuple(ModelSpeed(model, speed) for model, speed in alone.items() if speed > 0)

    def _speed(self, key: str, occupancy: Occupancy) -> Speed:
        run = occupancy.run(key)
        job_type = _job_type(run)
        across = len({worker.node for worker in run.placement}) > 1
        reference = self._alone(self.gpu_type, job_type)
        slowest = min(
            self._on_gpu(uuid, key, job_type, occupancy, across=across) / reference
            for worker in run.placement
            for uuid in worker.gpus
        )
        gpus = sum(len(worker.gpus) for worker in run.placement)
        shared = any(len(occupancy.on_gpu(uuid)) > 1 for worker in run.placement for uuid in worker.gpus)
        return Speed(slowest, gpus * min(1.0, slowest) if shared else None)

    def _on_gpu(self, uuid: str, key: str, job_type: str, occupancy: Occupancy, *, across: bool) -> float:
        """Return a job's iterations per second, were all of its GPUs like this one."""
        gpu_type = self._gpu_type(occupancy.gpu(uuid).model)
        if across and job_type in self._throughputs.get(gpu_type + UNCONSOLIDATED, {}):
            gpu_type += UNCONSOLIDATED
        throughput = self._alone(gpu_type, job_type)
        for other in occupancy.on_gpu(uuid):
            if other != key:
                throughput *= self._beside(gpu_type, job_type, _job_type(occupancy.run(other)))
        return throughput

    def _gpu_type(self, model: str) -> str:
        gpu_type = self.gpu_type if model == DEFAULT_MODEL else model.casefold()
        self._check_type(gpu_type)
        return gpu_type

    def _alone(self, gpu_type: str, job_type: str) -> float:
        try:
            return float(str(self._throughputs[gpu_type][job_type][ALONE]))
        except KeyError:
            raise ValueError(
                f"there is no throughput of {job_type} on {gpu_type}: choose a trace whose jobs were measured, or model=alone"
            ) from None

    def _beside(self, gpu_type: str, job_type: str, other: str) -> float:
        """Return a job's throughput beside another as a ratio of its throughput alone."""
        key = (gpu_type, job_type, other)
        if key not in self._ratios:
            pair = self._throughputs[gpu_type][job_type].get(other)
            alone = self._alone(gpu_type, job_type)
            measured = isinstance(pair, list) and len(pair) == 2 and alone > 0
            self._ratios[key] = float(pair[0]) / alone if isinstance(pair, list) and measured else 0.5
        return self._ratios[key]

    def _check_type(self, gpu_type: str) -> None:
        if gpu_type not in self._throughputs:
            known = ", ".join(sorted(name for name in self._throughputs if UNCONSOLIDATED not in name))
            raise ValueError(f"there are no throughputs on GPUs of type {gpu_type!r}: choose one of {known}")


def _job_type(run: Running) -> str:
    return _type_name(run.job.model, sum(len(worker.gpus) for worker in run.placement))


def _type_name(model: str, gpus: int) -> str:
    return f"('{model}', {gpus})"
