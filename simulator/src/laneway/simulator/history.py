"""What happened in a simulation, as far as reports and plots need it."""

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
    PARKED = "parked"
    """Paused or offloaded: it takes no turns."""


PHASES = {
    JobState.STARTING: Phase.STARTING,
    JobState.RUNNING: Phase.RUNNING,
    JobState.LEAVING: Phase.LEAVING,
    JobState.PAUSED: Phase.PARKED,
    JobState.OFFLOADED: Phase.PARKED,
}


@dataclass(frozen=True, slots=True)
class Interval:
    """A job held GPUs for a while."""

    job: str
    phase: Phase
    from_seconds: float
    to_seconds: float
    gpus: tuple[str, ...]
    """Uuids."""

    share_percent: int
    """Of each of these GPUs."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The cluster from a moment on, until the next."""

    seconds: float
    waiting_jobs: int
    running_jobs: int
    """With those that start or leave, and without those that are parked."""

    held_gpus: float
    """In fractions; a GPU that is held more than once counts once."""


@dataclass(slots=True)
class History:
    """A simulation's intervals and moments, in the order in which they ended and began."""

    intervals: list[Interval] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)

    def note_interval(self, run: Run, now_seconds: float) -> None:
        """Take down what a job has held since it entered the state that it is about to leave."""
        self.intervals.extend(self.under_way([run], now_seconds))

    @staticmethod
    def under_way(runs: Iterable[Run], now_seconds: float) -> Iterator[Interval]:
        """Yield what jobs have held since they entered the states that they are in."""
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

    def note_moment(self, moment: Moment) -> None:
        """Take down how the cluster is from now on."""
        if self.moments and self.moments[-1].seconds == moment.seconds:
            self.moments.pop()
        self.moments.append(moment)
