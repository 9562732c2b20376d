"""A discrete-event simulation around the operator's scheduler.

There is no time step. The clock jumps to the next event: a submission, the end of a start, the end of a departure, a finish, a change
of a speed, or the time at which the policies want to decide again. At each event the scheduler observes the changed jobs and decides,
until nothing more changes at that time. An event therefore costs what it changes, not the number of jobs.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

from laneway.scheduling import (
    Decision,
    JobState,
    Node,
    Policies,
    Preemption,
    PreemptionAction,
    PreemptionReason,
    Scheduler,
    WaitingReason,
    WorkerPlacement,
)
from laneway.scheduling.model.plan import WorkerAllotment
from laneway.simulator.costs import Costs
from laneway.simulator.fragmentation import Fragmentation
from laneway.simulator.history import History, Interval
from laneway.simulator.knowledge import Knowledge
from laneway.simulator.meter import Meter
from laneway.simulator.models.alone import Alone
from laneway.simulator.models.speed_model import Speed, SpeedModel
from laneway.simulator.occupancy import Occupancy, uuids
from laneway.simulator.run import Run
from laneway.simulator.trace import TraceJob

_TICK_SECONDS = 1e-6
"""The smallest step to a due decision: sums of floats may miss a threshold by less."""

_MOST_DECISIONS_AT_ONCE = 1000
_MOST_IDLE_DECISIONS = 1000
"""The simulation ends after this many decisions without a change and without a future event: no waiting job can ever start."""


class _Event(IntEnum):
    """The kind of an event; at the same time, the smaller comes first."""

    FINISH = 0
    GONE = 1
    STARTED = 2
    MEASURED = 3
    MILESTONE = 4
    SUBMIT = 5


class Simulation:
    """One trace under one set of policies. Call :meth:`step` until it returns False, or :meth:`run`."""

    def __init__(
        self,
        trace: Sequence[TraceJob],
        nodes: Sequence[Node],
        policies: Policies,
        costs: Costs | None = None,
        timer: Callable[[], float] = time.perf_counter,
        *,
        model: SpeedModel | None = None,
        knowledge: Knowledge | None = None,
    ) -> None:
        """Prepare a simulation.

        Args:
            trace: the jobs.
            nodes: the cluster.
            policies: the policies of the scheduler.
            costs: the time that starts and preemptions cost.
            timer: a clock in seconds that measures the time of decisions.
            model: the speed of jobs; None: as in the trace.
            knowledge: what the scheduler knows about the jobs.
        """
        self.runs: dict[str, Run] = {}
        """The jobs submitted so far."""

        self.nodes = tuple(nodes)
        self.history = History()
        self.meter = Meter(nodes, Fragmentation(job.demand for job in trace))
        self.now_seconds = 0.0
        self.decision_seconds = 0.0
        self.decisions = 0
        self.finished = 0
        self.held_until_finish_gpu_seconds = 0.0
        """The meter's held GPU-seconds when a job last finished."""

        self._trace = {job.key: job for job in trace}
        self._costs = costs or Costs()
        self._timer = timer
        self._model = model or Alone()
        self._knowledge = knowledge or Knowledge()
        self._scheduler = Scheduler(nodes, policies)
        self._allocates = policies.allocation is not None
        self._relative = policies.order.relative
        self._occupancy = Occupancy(nodes)
        self._changed: dict[str, Run] = {}
        """Runs whose current state the scheduler has not observed yet."""

        self._drained_at_seconds: dict[str, float] = {}
        """By GPU with a job that is being paused: when others can run there."""

        self._events: list[tuple[float, _Event, str, int]] = [
            (job.submit_seconds, _Event.SUBMIT, job.key, 0) for job in trace
        ]
        heapq.heapify(self._events)
        self._due_seconds: float | None = None
        self._due_again = False
        """Whether a measured speed may change the last decision."""

        self._idle_decisions = 0

    @property
    def submitted(self) -> int:
        """The number of jobs of the trace, future submissions included."""
        return len(self._trace)

    def intervals(self) -> list[Interval]:
        """Return which jobs held which GPUs when, up to now."""
        return [*self.history.intervals, *self.history.open_intervals(self.runs.values(), self.now_seconds)]

    @property
    def waiting(self) -> Mapping[str, WaitingReason]:
        """The reasons of the jobs that wait now, in order."""
        return self._scheduler.plan(self.now_seconds).waiting

    def estimated_starts(self, *, trust_durations: bool) -> Mapping[str, float]:
        """Return the estimated starts of the jobs that wait now: the estimates that users would see.

        Args:
            trust_durations: whether the estimate knows the durations that jobs are expected to have.
        """
        planned = self._scheduler.plan(self.now_seconds)
        advice = self._scheduler.start_estimates(
            planned.waiting, planned.waiting.keys(), self.now_seconds, trust_durations=trust_durations
        )
        return {key: each.start_seconds for key, each in advice.items() if each.start_seconds is not None}

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Simulate to the end: until every job that can run has finished.

        Args:
            progress: called after every step with the number of finished jobs and of all jobs.
        """
        while self.step():
            if progress is not None:
                progress(self.finished, len(self._trace))

    def step(self) -> bool:
        """Advance to the next event and decide. False: there is no event any more."""
        self._drop_void_events()
        at_seconds = self._events[0][0] if self._events else math.inf
        if self._due_seconds is not None:
            at_seconds = min(at_seconds, self._due_seconds)
        self._idle_decisions = 0 if self._events else self._idle_decisions + 1
        if at_seconds == math.inf or self._idle_decisions > _MOST_IDLE_DECISIONS:
            return False
        self.meter.advance(at_seconds)
        self.now_seconds = at_seconds
        due, self._due_again = self._due_seconds == at_seconds, False
        while self._events and self._events[0][0] <= at_seconds:
            _, event, key, version = heapq.heappop(self._events)
            due |= event is not _Event.MEASURED
            self._handle(event, key, version)
        if not due and not self._due_again:
            return True
        self._schedule()
        self.history.add_sample(self.meter.sample())
        return True

    def _drop_void_events(self) -> None:
        """Drop the next events whose jobs have left the state or speed for which the events were scheduled."""
        while self._events:
            _, event, key, version = self._events[0]
            if event is _Event.SUBMIT or self.runs[key].version == version:
                return
            heapq.heappop(self._events)

    def _handle(self, event: _Event, key: str, version: int) -> None:
        if event is _Event.SUBMIT:
            self._submit(self._trace[key])
            return
        run = self.runs[key]
        if run.version != version:
            return
        if event is _Event.STARTED:
            self._enter(run, JobState.RUNNING)
        elif event is _Event.GONE and run.finish_seconds is None:
            self._enter(run, JobState.WAITING, ())
        elif event is _Event.GONE:
            self._forget(run)
        elif event is _Event.FINISH:
            self._finish(run)
        elif event is _Event.MEASURED:
            self._report_speed(run)
        else:
            self._reach_milestone(run)

    def _submit(self, job: TraceJob) -> None:
        knowledge = self._knowledge
        run = Run(
            job,
            self.now_seconds,
            knowledge.expected_seconds(job),
            knowledge.profiled,
            knowledge.profile_of(job),
        )
        self.runs[job.key] = self._changed[job.key] = run
        self._scheduler.avoid(job.key, job.avoided_nodes)
        self.meter.count(run.state, 1)

    def _finish(self, run: Run) -> None:
        run.accrue(self.now_seconds)
        self._enter(run, JobState.TERMINATING)
        run.counted_progress_seconds = run.job.duration_seconds  # but for rounding it was there already
        run.finish_seconds = self.now_seconds
        self.finished += 1
        self.held_until_finish_gpu_seconds = self.meter.held_gpu_seconds
        self._after(self._costs.end_seconds, _Event.GONE, run)

    def _forget(self, run: Run) -> None:
        self._enter(run, JobState.TERMINATING, ())
        self.meter.count(run.state, -1)
        self._changed.pop(run.job.key)
        self._scheduler.forget(run.job.key)

    def _reach_milestone(self, run: Run) -> None:
        """Publish the profile, or request a new speed, whichever the work done has reached."""
        run.accrue(self.now_seconds)
        run.counted_progress_seconds = self._milestone_seconds(run)
        if not run.profiled and run.counted_progress_seconds >= self._knowledge.profiling_seconds(run.job):
            run.profiled = True
            self._changed[run.job.key] = run
        if run.speed is not None and run.counted_progress_seconds >= run.speed.until_progress_seconds:
            self._occupancy.touch(run)
        else:
            self._plan_milestone(run)

    def _enter(self, run: Run, state: JobState, placement: tuple[WorkerPlacement, ...] | None = None) -> None:
        """Move a job to another state and placement; None: it keeps its placement."""
        self.history.add_interval(run, self.now_seconds)
        if run.state is JobState.RUNNING:
            self._occupancy.leave(run)
        self.meter.count(run.state, -1)
        run.enter(state, self.now_seconds)
        self.meter.count(run.state, 1)
        if placement is not None:
            self.meter.hold(run.placement, sign=-1)
            run.hold(placement)
            self.meter.hold(run.placement)
        if state is JobState.RUNNING:
            self._occupancy.enter(run)
        self._changed[run.job.key] = run

    def _schedule(self) -> None:
        """Decide and apply, until nothing more changes at this time."""
        for _ in range(_MOST_DECISIONS_AT_ONCE):
            self._update_speeds()
            self._sync()
            began = self._timer()
            decided = self._scheduler.decide(self.now_seconds)
            self.decision_seconds += self._timer() - began
            self.decisions += 1
            if not self._apply(decided):
                self._update_speeds()
                self._allocate()
                self._sync()
                due = self._scheduler.next_decision_seconds(self.now_seconds)
                self._due_seconds = None if due is None else max(due, self.now_seconds + _TICK_SECONDS)
                return
        raise RuntimeError(
            f"at {self.now_seconds} s the policies have not settled after {_MOST_DECISIONS_AT_ONCE} decisions: "
            "they start and preempt the same jobs in turn"
        )

    def _allocate(self) -> None:
        """Apply the allocation policy's CPUs and memory to the workers, if there is such a policy."""
        if self._allocates:
            for key, allotments in self._scheduler.plan(self.now_seconds).allotments.items():
                self._allot(self.runs[key], tuple(allotments))
            self._update_speeds()

    def _update_speeds(self) -> None:
        """Ask the model for the speeds of the runs that its answer may concern."""
        changes = self._occupancy.take_changes()
        if changes is None:
            return
        for key, speed in self._model.speeds(changes, self._occupancy, self.now_seconds).items():
            run = self.runs[key]
            if run.speed != speed:
                self._set_speed(run, speed)

    def _set_speed(self, run: Run, speed: Speed) -> None:
        run.set_speed(speed, self.now_seconds)
        if not run.profiled and run.counted_progress_seconds >= self._knowledge.profiling_seconds(run.job):
            run.profiled = True
        self._changed[run.job.key] = run
        self._plan_milestone(run)
        measuring_seconds = self._knowledge.measuring_seconds(run.job, speed.progress_ratio)
        if measuring_seconds < math.inf and self._occupancy.sharers(run):
            at_seconds = self.now_seconds + measuring_seconds
            heapq.heappush(self._events, (at_seconds, _Event.MEASURED, run.job.key, run.version))

    def _report_speed(self, run: Run) -> None:
        """Tell the scheduler the speed of a job beside those that share its GPUs, as measured by now."""
        if run.speed is not None:
            sharers, ratio = self._occupancy.sharers(run), run.speed.progress_ratio
            self._due_again |= self._scheduler.report_speed(run.job.key, ratio, sharers)

    def _plan_milestone(self, run: Run) -> None:
        """Schedule the end of a job's work, of its profiling or of its speed, whichever comes first."""
        if run.speed is None or run.speed.progress_ratio <= 0:
            return
        milestone_seconds = self._milestone_seconds(run)
        event = _Event.FINISH if milestone_seconds >= run.job.duration_seconds else _Event.MILESTONE
        left_seconds = max(0.0, milestone_seconds - run.counted_progress_seconds) / run.speed.progress_ratio
        at_seconds = run.counted_at_seconds + left_seconds
        heapq.heappush(self._events, (at_seconds, event, run.job.key, run.version))

    def _milestone_seconds(self, run: Run) -> float:
        """Return the work done at the job's next milestone."""
        milestone_seconds = run.job.duration_seconds
        if run.speed is not None:
            milestone_seconds = min(milestone_seconds, run.speed.until_progress_seconds)
        if not run.profiled:
            milestone_seconds = min(milestone_seconds, self._knowledge.profiling_seconds(run.job))
        return milestone_seconds

    def _sync(self) -> None:
        """Show the scheduler the current state of the changed jobs."""
        for run in self._changed.values():
            self._scheduler.observe(run.as_job())
        self._changed.clear()

    def _apply(self, decided: Decision) -> bool:
        """Apply a decision. Return whether another decision at this time may change more.

        Starts alone do not: they free nothing, and a job that did not fit beside them does not fit now; unless they change the
        ranks of others.
        """
        for key in decided.promotions:
            run = self.runs[key]
            if run.service_at_promotion_gpu_seconds != run.attained_gpu_seconds:
                run.service_at_promotion_gpu_seconds = run.attained_gpu_seconds
                self._changed[key] = run
        for key, preemption in decided.preemptions.items():
            self._preempt(self.runs[key], preemption)
        for key in decided.resumes:
            self._resume(self.runs[key])
        for key, placement in decided.starts.items():
            self._start(self.runs[key], tuple(placement))
        return bool(decided.preemptions or decided.resumes or (decided.starts and self._relative))

    def _start(self, run: Run, placement: tuple[WorkerPlacement, ...]) -> None:
        nodes = frozenset(worker.node for worker in placement)
        if run.first_start_seconds is None:
            run.first_start_seconds = self.now_seconds
            cost_seconds = self._costs.start_seconds
        else:
            cost_seconds = self._costs.restart_seconds
            if not nodes <= run.last_nodes:
                run.migrations += 1
                cost_seconds += self._costs.migration_seconds
        run.last_nodes = nodes
        self._enter(run, JobState.STARTING, placement)
        self._after(self._drain_seconds(placement) + cost_seconds, _Event.STARTED, run)

    def _resume(self, run: Run) -> None:
        offloaded = run.state is JobState.OFFLOADED
        cost_seconds = (
            self._costs.restore_seconds(run.job.profile) if offloaded else self._costs.resume_seconds
        )
        self._enter(run, JobState.STARTING)
        self._after(self._drain_seconds(run.placement) + cost_seconds, _Event.STARTED, run)

    def _preempt(self, run: Run, preemption: Preemption) -> None:
        if preemption.reason is PreemptionReason.RESCALED:
            run.rescales += 1
        else:
            run.preemptions += 1
        if preemption.action is PreemptionAction.EVICT:
            run.evictions += 1
            self._enter(run, JobState.TERMINATING)
            run.lose_unsaved_work()
            self._after(self._costs.leave_seconds, _Event.GONE, run)
        elif preemption.action is PreemptionAction.OFFLOAD:
            self._enter(run, JobState.OFFLOADED)
            self._drain(run, self._costs.offload_seconds(run.job.profile))
        else:
            self._enter(run, JobState.PAUSED)
            self._drain(run, self._costs.pause_seconds)

    def _drain(self, run: Run, delay_seconds: float) -> None:
        """Keep others from running on the GPUs of a job that is being paused until it has stopped."""
        if delay_seconds > 0:
            for uuid in uuids(run.placement):
                drained_seconds = self._drained_at_seconds.get(uuid, 0.0)
                self._drained_at_seconds[uuid] = max(drained_seconds, self.now_seconds + delay_seconds)

    def _drain_seconds(self, placement: Sequence[WorkerPlacement]) -> float:
        """Return the time until all jobs that are being paused on these GPUs have stopped."""
        if not self._drained_at_seconds:
            return 0.0
        latest_seconds = max(self._drained_at_seconds.get(uuid, 0.0) for uuid in uuids(placement))
        return max(0.0, latest_seconds - self.now_seconds)

    def _allot(self, run: Run, allotments: tuple[WorkerAllotment, ...]) -> None:
        if run.allotments != allotments:
            run.allotments = allotments
            if run.state is JobState.RUNNING:
                self._occupancy.touch(run)

    def _after(self, delay_seconds: float, event: _Event, run: Run) -> None:
        """Schedule an event of a job, or handle it at once if the delay is 0."""
        if delay_seconds <= 0:
            self._handle(event, run.job.key, run.version)
        else:
            heapq.heappush(self._events, (self.now_seconds + delay_seconds, event, run.job.key, run.version))
