"""The history of a simulation, for reports and plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from laneway.scheduling import JobState
from laneway.simulator.occupancy import uuids
from laneway.simulator.run import Run


class Phase(StrEnum):
    """What a job does with the GPUs that it holds."""

    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    PAUSED = "paused"
    """Paused or offloaded: it takes no turns."""


PHASES = {
    JobState.STARTING: Phase.STARTING,
    JobState.RUNNING: Phase.RUNNING,
    JobState.TERMINATING: Phase.LEAVING,
    JobState.PAUSED: Phase.PAUSED,
    JobState.OFFLOADED: Phase.PAUSED,
}


@dataclass(frozen=True, slots=True)
class Interval:
    """A job held GPUs in one phase."""

    job: str
    phase: Phase
    from_seconds: float
    to_seconds: float
    gpus: tuple[str, ...]
    """UUIDs."""

    share_percent: int
    """Of each of these GPUs."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of the cluster from a time on, until the next sample."""

    seconds: float
    waiting_jobs: int
    running_jobs: int
    """Starting and leaving jobs included, paused ones not."""

    held_gpus: float
    """In fractions; a GPU that is held more than once counts once."""


@dataclass(slots=True)
class History:
    """A simulation's intervals by their ends, and its samples by their times."""

    intervals: list[Interval] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def add_interval(self, run: Run, now_seconds: float) -> None:
        """Record what a job has held in the state that it is about to leave."""
        self.intervals.extend(self.open_intervals((run,), now_seconds))

    @staticmethod
    def open_intervals(runs: Iterable[Run], now_seconds: float) -> Iterator[Interval]:
        """Yield what jobs have held since they entered their current states."""
        for run in runs:
            if run.placement and now_seconds > run.state_since_seconds:
                yield Interval(
                    run.job.key,
                    PHASES[run.state],
                    run.state_since_seconds,
                    now_seconds,
                    uuids(run.placement),
                    run.placement[0].share_percent,
                )

    def add_sample(self, sample: Sample) -> None:
        """Record the state of the cluster; it replaces a sample of the same time."""
        if self.samples and self.samples[-1].seconds == sample.seconds:
            self.samples.pop()
        self.samples.append(sample)
