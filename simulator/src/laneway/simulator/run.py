"""The state of one job in the simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from laneway.scheduling import Job, JobState, Profile, WorkerPlacement
from laneway.scheduling.model.goodput import GoodputModel
from laneway.scheduling.model.gpu_speed import ModelSpeed
from laneway.scheduling.model.plan import WorkerAllotment
from laneway.scheduling.model.snapshot import held_gpus
from laneway.scheduling.model.unsaved_work import MOST_LOST_SECONDS
from laneway.simulator.models.speed_model import Speed
from laneway.simulator.trace import TraceJob

_NOT_TRAINING = (JobState.WAITING, JobState.PAUSED, JobState.OFFLOADED)


@dataclass(slots=True)
class Run:
    """A job's current state and its counters. Times are seconds of the simulation."""

    job: TraceJob
    state_since_seconds: float
    expected_seconds: float
    profiled: bool = False
    """Whether the scheduler knows its profile, if the trace has one."""

    known_profile: Profile | None = None
    """Its profile, as the scheduler knows it."""

    speeds: tuple[ModelSpeed, ...] = ()
    """How fast it runs on GPU models, as far as the scheduler knows it."""

    state: JobState = JobState.WAITING
    placement: tuple[WorkerPlacement, ...] = ()
    held_gpus: float = 0.0
    """In fractions."""

    allotments: tuple[WorkerAllotment, ...] = ()
    speed: Speed | None = None
    """In ``RUNNING``, from the model's answer on."""

    goodput: GoodputModel | None = None
    """The last report of its workers."""

    counted_at_seconds: float = 0.0
    """The time of the three counters below; from then on they grow with ``speed``."""

    counted_progress_seconds: float = 0.0
    """Work done, of ``job.duration_seconds``."""

    executed_seconds: float = 0.0
    """Time in ``RUNNING``."""

    attained_gpu_seconds: float = 0.0
    """Service."""

    waited_seconds: float = 0.0
    """Earlier waits, and times in which it was paused."""

    checkpoint_seconds: float = math.inf
    """It writes a checkpoint after each such time of training."""

    saved_progress_seconds: float = 0.0
    """The work that its last checkpoint holds."""

    executed_seconds_at_save: float = 0.0
    """The time executed when it last wrote or loaded a checkpoint, or started over."""

    lost_seconds: float = 0.0
    """Work done and lost."""

    attempt: int = 0
    """How often it was placed or resumed."""

    started_over: bool = False
    """Whether an eviction lost all of its work, and enough to be remembered."""

    competes: bool = True
    """Whether it may start: it does not back off."""

    preempts: bool = True
    """Whether other jobs may be preempted for it."""

    service_at_promotion_gpu_seconds: float = 0.0
    running_since_seconds: float | None = None
    first_start_seconds: float | None = None
    """When it was first placed."""

    first_run_seconds: float | None = None
    """When its workers first ran."""

    finish_seconds: float | None = None
    preemptions: int = 0
    """Pauses, offloads and evictions; rescales do not count."""

    evictions: int = 0
    failures: int = 0
    """Attempts that ended because a worker or a node failed."""

    rollbacks: int = 0
    """Attempts that did not start as a whole."""

    rescales: int = 0
    rescaled_seconds: float | None = None
    """When it was last stopped to be rescaled, until it runs again; None: it is not being rescaled."""

    rescaled_attempt: int = 0
    """Which attempt was stopped then."""

    waited_at_rescale_seconds: float = 0.0
    rescale_seconds: float | None = None
    """How long its last rescale kept it from training, the wait for GPUs not counted, as far as the operator knows."""

    migrations: int = 0
    """Restarts on a node that it was not on before."""

    refused_nodes: frozenset[str] = frozenset()
    """Where kube-scheduler refuses workers of its current attempt."""

    last_workers: int = 0
    """Of its current attempt, or of the last one."""

    last_nodes: frozenset[str] = frozenset()
    """Its nodes when it last held GPUs."""

    version: int = 0
    """Counts changes of state and speed; an event of an earlier version is void."""

    def progress_seconds(self, now_seconds: float) -> float:
        """Return the work done, of its ``duration_seconds``."""
        if self.speed is None:
            return self.counted_progress_seconds
        elapsed = now_seconds - self.counted_at_seconds
        return self.counted_progress_seconds + elapsed * self.speed.progress_ratio

    @property
    def service_gpus(self) -> float:
        """GPU-seconds of service attained per second."""
        if self.speed is None:
            return 0.0
        if self.speed.service_gpus is not None:
            return self.speed.service_gpus
        return self.held_gpus

    def hold(self, placement: tuple[WorkerPlacement, ...]) -> None:
        """Set its placement; an empty one holds nothing."""
        self.placement = placement
        self.held_gpus = held_gpus(placement)

    def accrue(self, now_seconds: float) -> None:
        """Advance the counters to a time."""
        if self.speed is not None:
            elapsed = now_seconds - self.counted_at_seconds
            self.counted_progress_seconds += elapsed * self.speed.progress_ratio
            self.attained_gpu_seconds += elapsed * self.service_gpus
            self.executed_seconds += elapsed
            self._save_as_it_runs(self.speed.progress_ratio)
        self.counted_at_seconds = now_seconds

    def _save_as_it_runs(self, progress_ratio: float) -> None:
        """Write the checkpoints of the time since the counters were advanced, in which the speed was this: the last one counts."""
        unsaved_seconds = self.executed_seconds - self.executed_seconds_at_save
        if unsaved_seconds < self.checkpoint_seconds:
            return
        self.executed_seconds_at_save += unsaved_seconds // self.checkpoint_seconds * self.checkpoint_seconds
        since_seconds = self.executed_seconds - self.executed_seconds_at_save
        saved_seconds = self.counted_progress_seconds - since_seconds * progress_ratio
        self.saved_progress_seconds = max(self.saved_progress_seconds, saved_seconds)

    def enter(self, state: JobState, now_seconds: float) -> None:
        """Enter a state; the placement changes after this."""
        self.accrue(now_seconds)
        self.speed = None
        if self.state in _NOT_TRAINING:
            self.waited_seconds += now_seconds - self.state_since_seconds
        self.state = state
        self.state_since_seconds = now_seconds
        if state is JobState.RUNNING:
            self.running_since_seconds = now_seconds
            if self.first_run_seconds is None:
                self.first_run_seconds = now_seconds
        self.version += 1

    def begin_rescale(self, now_seconds: float) -> None:
        """It is stopped to be rescaled."""
        self.rescales += 1
        self.rescaled_seconds, self.rescaled_attempt = now_seconds, self.attempt
        self.waited_at_rescale_seconds = self.waited_seconds

    def end_rescale(self, now_seconds: float) -> None:
        """It runs: the operator has measured what the rescale cost, if this is the first attempt after one."""
        if self.rescaled_seconds is not None and self.attempt == self.rescaled_attempt + 1:
            waited_seconds = self.waited_seconds - self.waited_at_rescale_seconds
            self.rescale_seconds = now_seconds - self.rescaled_seconds - waited_seconds
        self.rescaled_seconds = None

    def stop(self) -> None:
        """It is told to stop, because it is evicted: it saves its work if it can, else it loses what it has not saved."""
        if self.job.saves:
            self.saved_progress_seconds = self.counted_progress_seconds
            self.executed_seconds_at_save = self.executed_seconds
        else:
            self.lose_unsaved_work()

    def lose_unsaved_work(self) -> None:
        """Go back to the last checkpoint, or to the beginning."""
        self.lost_seconds += self.counted_progress_seconds - self.saved_progress_seconds
        self.counted_progress_seconds = self.saved_progress_seconds
        self.executed_seconds_at_save = self.executed_seconds
        if not self.job.saves and self.checkpoint_seconds == math.inf:
            self.started_over = self.executed_seconds >= MOST_LOST_SECONDS

    def set_speed(self, speed: Speed, now_seconds: float) -> None:
        """Continue at another speed."""
        self.accrue(now_seconds)
        self.speed = speed
        if speed.goodput is not None:
            self.goodput = speed.goodput
        self.version += 1

    def as_job(self) -> Job:
        """Return what the scheduler knows of it: never its remaining time, and its profile only once measured."""
        return Job(
            self.job.key,
            self.job.demand if self.preempts else replace(self.job.demand, preempts=False),
            created_seconds=self.job.submit_seconds,
            state=self.state,
            placement=self.placement,
            priority=self.job.priority,
            attained_service_gpu_seconds=self.attained_gpu_seconds,
            executed_seconds=self.executed_seconds,
            as_of_seconds=self.counted_at_seconds,
            service_rate_gpus=None if self.speed is None else self.speed.service_gpus,
            expected_seconds=self.expected_seconds,
            speeds=self.speeds,
            waiting_since_seconds=self.state_since_seconds,
            waited_before_seconds=self.waited_seconds,
            started_seconds=self.running_since_seconds,
            service_at_promotion_gpu_seconds=self.service_at_promotion_gpu_seconds,
            profile=self.known_profile if self.profiled else None,
            template=self.job.model,
            sensitivity=self.job.sensitivity,
            goodput=self.goodput,
            restarts=self.evictions + self.failures,
            explored_workers=self.last_workers,
            rescale_seconds=self.rescale_seconds,
            preemptible=self.job.preemptible,
            unsaved_seconds=None if self.job.saves else self.executed_seconds - self.executed_seconds_at_save,
            starts_over=self.started_over,
            ends=self.finish_seconds is not None and self.state is JobState.TERMINATING,
        )
