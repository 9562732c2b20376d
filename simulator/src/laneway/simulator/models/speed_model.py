"""What a speed model answers: how fast jobs get on where they are.

A job of a trace is so many seconds of work: what it takes on what it demands, undisturbed. A speed is seconds of that work
done in a second. It is constant until something changes: a job comes to or goes from GPUs, its workers or its CPUs change, or
it has done so much work that the model sees it differently. The engine tells the model which runs and GPUs have changed,
once a moment, after all that happens at that moment; the model answers with the speed of every run that this may concern.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from laneway.scheduling import GPU, WorkerPlacement
from laneway.scheduling.allocation.policy import WorkerAllotment
from laneway.scheduling.elastic.goodput import GoodputModel
from laneway.simulator.trace import TraceJob


class Speed(NamedTuple):
    """How a run gets on, until it is told otherwise."""

    progress_ratio: float = 1.0
    """Seconds of the trace's work a second; 0: it stands still."""

    service_gpus: float | None = None
    """GPU-seconds of service that it attains a second, where its GPUs' time is shared; None: its share of the GPUs that
    it holds."""

    until_progress_seconds: float = math.inf
    """The model is asked again when the run has done so much work in all."""

    goodput: GoodputModel | None = None
    """What a malleable job's workers measure meanwhile, and report to the scheduler; None: nothing new."""


class Running(Protocol):
    """A job that runs, as a model sees it."""

    @property
    def job(self) -> TraceJob:
        """What the trace says of it."""
        ...

    @property
    def placement(self) -> tuple[WorkerPlacement, ...]:
        """Where its workers are; as many as it has now, ordered by rank."""
        ...

    @property
    def allotments(self) -> tuple[WorkerAllotment, ...]:
        """CPUs and host memory of each of its workers, ordered by rank; empty: none were allotted."""
        ...

    def progress_seconds(self, now_seconds: float) -> float:
        """Return the work that it has done, of its ``duration_seconds``."""
        ...


class Occupancy(Protocol):
    """Who runs where. Jobs that start, leave or are parked are not there: they take no turns."""

    def run(self, key: str) -> Running:
        """Return the run of a job."""
        ...

    def on_gpu(self, uuid: str) -> Collection[str]:
        """Return the jobs that run on a GPU, in order of coming."""
        ...

    def on_node(self, name: str) -> Collection[str]:
        """Return the jobs that run on a node, in order of coming."""
        ...

    def gpu(self, uuid: str) -> GPU:
        """Return what the cluster says of a GPU."""
        ...


@dataclass(frozen=True, slots=True)
class Changes:
    """What is not as it was when speeds were last asked for."""

    runs: Collection[str]
    """Jobs that run now and did not, or that have other GPUs, CPUs or memory, or that have come to the end of a speed."""

    gpus: Collection[str]
    """Uuids of GPUs on which others run than before; those that ``runs`` came to are among them."""

    nodes: Collection[str]
    """Names of the nodes of ``gpus``."""


class SpeedModel(Protocol):
    """Says how fast jobs get on. Pure: the same picture gives the same speeds, whatever was before."""

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return the speed of every run that the changes may concern, by job; all of ``changes.runs`` are among them."""
        ...
