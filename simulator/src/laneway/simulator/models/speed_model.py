"""The protocol of speed models: how fast jobs run where they are.

A job of a trace is an amount of work: its undisturbed duration in seconds. A speed is seconds of that work per second. It is constant
until something changes: a job joins or leaves GPUs, its workers or its CPUs change, or it reaches an amount of work named by the
model. After all events of one time, the simulation gives the model the changed runs and GPUs. The model returns the speed of every run that
these changes may concern.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from laneway.scheduling import GPU, WorkerPlacement
from laneway.scheduling.model.goodput import GoodputModel
from laneway.scheduling.model.gpu_speed import ModelSpeed
from laneway.scheduling.model.plan import WorkerAllotment
from laneway.simulator.trace import TraceJob


class Speed(NamedTuple):
    """The speed of a run, until its next change."""

    progress_ratio: float = 1.0
    """Seconds of the trace's work per second; 0: it makes no progress."""

    service_gpus: float | None = None
    """GPU-seconds of service per second, if it shares its GPUs' time; None: its share of the GPUs that it holds."""

    until_progress_seconds: float = math.inf
    """The total work at which the model is asked again."""

    goodput: GoodputModel | None = None
    """The goodput model that an elastic job's workers report to the scheduler; None: nothing new."""


class Running(Protocol):
    """A running job, as a model sees it."""

    @property
    def job(self) -> TraceJob:
        """The job of the trace."""
        ...

    @property
    def placement(self) -> tuple[WorkerPlacement, ...]:
        """The placement of its current workers, ordered by rank."""
        ...

    @property
    def allotments(self) -> tuple[WorkerAllotment, ...]:
        """CPUs and host memory of its workers, ordered by rank; empty: not allotted."""
        ...

    def progress_seconds(self, now_seconds: float) -> float:
        """Return the work done, of its ``duration_seconds``."""
        ...


class Occupancy(Protocol):
    """Which jobs run where. Starting, leaving and paused jobs are absent: they take no turns."""

    def run(self, key: str) -> Running:
        """Return the run of a job."""
        ...

    def on_gpu(self, uuid: str) -> Collection[str]:
        """Return the jobs that run on a GPU, in order of arrival."""
        ...

    def on_node(self, name: str) -> Collection[str]:
        """Return the jobs that run on a node, in order of arrival."""
        ...

    def gpu(self, uuid: str) -> GPU:
        """Return a GPU."""
        ...


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes since the speeds were last requested."""

    runs: Collection[str]
    """Jobs that have begun to run, have other GPUs, CPUs or memory, or have reached the end of their speed."""

    gpus: Collection[str]
    """UUIDs of GPUs whose running jobs have changed; includes the GPUs of ``runs``."""

    nodes: Collection[str]
    """Names of the nodes of ``gpus``."""


@runtime_checkable
class KnowsModels(Protocol):
    """A speed model whose jobs have measured speeds on each GPU model. The scheduler knows them."""

    def speeds_on(self, job: TraceJob, models: Collection[str]) -> tuple[ModelSpeed, ...]:
        """Return how fast a job runs alone on GPUs of these models, by name; without those on which it cannot run."""
        ...


class SpeedModel(Protocol):
    """Computes the jobs' speeds. Pure: the same occupancy gives the same speeds."""

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return the speed of every run that the changes may concern, by job; includes all of ``changes.runs``."""
        ...
