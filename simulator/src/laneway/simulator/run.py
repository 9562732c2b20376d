"""One job's way through the simulation."""

from __future__ import annotations

from dataclasses import dataclass

from laneway.scheduling import Job, JobState, WorkerPlacement
from laneway.simulator.trace import TraceJob


@dataclass(slots=True)
class Run:
    """What has happened to a job so far. Times are seconds of the simulation."""

    job: TraceJob
    state_since_seconds: float
    state: JobState = JobState.WAITING
    placement: tuple[WorkerPlacement, ...] = ()
    executed_before_seconds: float = 0.0
    """Time in which it ran, up to when it entered the state that it is in."""

    attained_before_gpu_seconds: float = 0.0
    """Service that it had, up to when it entered the state that it is in."""

    service_at_promotion_gpu_seconds: float = 0.0
    first_start_seconds: float | None = None
    finish_seconds: float | None = None
    preemptions: int = 0
    changes: int = 0
    """Counts changes of state, so that an event that was planned for a former state is known to be void."""

    @property
    def gpus(self) -> float:
        """GPUs that it holds, in fractions."""
        return sum(worker.share_percent * len(worker.gpus) for worker in self.placement) / 100

    @property
    def remaining_seconds(self) -> float:
        """What was left to run when it entered the state that it is in."""
        return self.job.duration_seconds - self.executed_before_seconds

    def enter(self, state: JobState, now_seconds: float) -> None:
        """Go over to another state; what it holds is changed after this."""
        running_seconds = self._running_seconds(now_seconds)
        self.executed_before_seconds += running_seconds
        self.attained_before_gpu_seconds += running_seconds * self.gpus
        self.state = state
        self.state_since_seconds = now_seconds
        self.changes += 1

    def as_job(self, now_seconds: float) -> Job:
        """Return what the scheduler may know of it: never its duration, and its profile once it has run."""
        running_seconds = self._running_seconds(now_seconds)
        executed_seconds = self.executed_before_seconds + running_seconds
        return Job(
            self.job.key,
            self.job.demand,
            created_seconds=self.job.submit_seconds,
            state=self.state,
            placement=self.placement,
            priority=self.job.priority,
            attained_service_gpu_seconds=self.attained_before_gpu_seconds + running_seconds * self.gpus,
            executed_seconds=executed_seconds,
            waiting_since_seconds=self.state_since_seconds,
            started_seconds=self.state_since_seconds if self.state is JobState.RUNNING else None,
            service_at_promotion_gpu_seconds=self.service_at_promotion_gpu_seconds,
            profile=self.job.profile if executed_seconds > 0 else None,
        )

    def _running_seconds(self, now_seconds: float) -> float:
        return now_seconds - self.state_since_seconds if self.state is JobState.RUNNING else 0.0
