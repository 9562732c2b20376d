"""What the parts of a simulation need of it: the clock, the runs and the events."""

from __future__ import annotations

from typing import Protocol

from laneway.scheduling import JobState, WorkerPlacement
from laneway.simulator.events import Event
from laneway.simulator.run import Run


class Stage(Protocol):
    """The simulation, as its parts see it."""

    now_seconds: float
    runs: dict[str, Run]

    @property
    def all_finished(self) -> bool:
        """Whether every job of the trace has finished."""

    def enter(self, run: Run, state: JobState, placement: tuple[WorkerPlacement, ...] | None = None) -> None:
        """Move a job to another state and placement; None: it keeps its placement."""

    def changed(self, run: Run) -> None:
        """Have the scheduler observe a job again."""

    def show(self, run: Run) -> None:
        """Have the scheduler observe a job again, and what the job avoids."""

    def at(self, at_seconds: float, event: Event, key: str, version: int = 0) -> None:
        """Schedule an event of a job or a node."""

    def after(self, delay_seconds: float, event: Event, run: Run) -> None:
        """Schedule an event of a job, or handle it at once if the delay is 0."""
