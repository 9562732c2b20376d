"""How fast the running jobs are, and when their work reaches a milestone: its end, a profile, or the end of a speed."""

from __future__ import annotations

import math

from laneway.simulator.events import Event
from laneway.simulator.knowledge import Knowledge
from laneway.simulator.models.speed_model import Speed, SpeedModel
from laneway.simulator.occupancy import Occupancy
from laneway.simulator.run import Run
from laneway.simulator.stage import Stage


class Progress:
    """The speeds of a simulation's jobs, and the events that follow from them."""

    def __init__(self, stage: Stage, model: SpeedModel, knowledge: Knowledge, occupancy: Occupancy) -> None:
        self._stage = stage
        self._model = model
        self._knowledge = knowledge
        self._occupancy = occupancy

    def update_speeds(self) -> None:
        """Ask the model for the speeds of the runs that its answer may concern."""
        changes = self._occupancy.take_changes()
        if changes is None:
            return
        for key, speed in self._model.speeds(changes, self._occupancy, self._stage.now_seconds).items():
            run = self._stage.runs[key]
            if run.speed != speed and run.finish_seconds is None:
                self._set_speed(run, speed)

    def reach_milestone(self, run: Run) -> None:
        """Publish the profile, or request a new speed, whichever the work done has reached."""
        run.accrue(self._stage.now_seconds)
        run.counted_progress_seconds = self._milestone_seconds(run)
        if not run.profiled and run.counted_progress_seconds >= self._knowledge.profiling_seconds(run.job):
            run.profiled = True
            self._stage.changed(run)
        if run.speed is not None and run.counted_progress_seconds >= run.speed.until_progress_seconds:
            self._occupancy.touch(run)
        else:
            self._plan_milestone(run)

    def _set_speed(self, run: Run, speed: Speed) -> None:
        run.set_speed(speed, self._stage.now_seconds)
        if not run.profiled and run.counted_progress_seconds >= self._knowledge.profiling_seconds(run.job):
            run.profiled = True
        self._stage.changed(run)
        self._plan_milestone(run)
        measuring_seconds = self._knowledge.measuring_seconds(run.job, speed.progress_ratio)
        if measuring_seconds < math.inf and self._occupancy.sharers(run):
            at_seconds = self._stage.now_seconds + measuring_seconds
            self._stage.at(at_seconds, Event.MEASURED, run.job.key, run.version)

    def _plan_milestone(self, run: Run) -> None:
        """Schedule the end of a job's work, of its profiling or of its speed, whichever comes first."""
        if run.speed is None or run.speed.progress_ratio <= 0:
            return
        milestone_seconds = self._milestone_seconds(run)
        event = Event.FINISH if milestone_seconds >= run.job.duration_seconds else Event.MILESTONE
        left_seconds = max(0.0, milestone_seconds - run.counted_progress_seconds) / run.speed.progress_ratio
        at_seconds = run.counted_at_seconds + left_seconds
        self._stage.at(at_seconds, event, run.job.key, run.version)

    def _milestone_seconds(self, run: Run) -> float:
        """Return the work done at the job's next milestone."""
        milestone_seconds = run.job.duration_seconds
        if run.speed is not None:
            milestone_seconds = min(milestone_seconds, run.speed.until_progress_seconds)
        if not run.profiled:
            milestone_seconds = min(milestone_seconds, self._knowledge.profiling_seconds(run.job))
        return milestone_seconds
