"""A discrete-event simulation around the operator's scheduler.

There is no time step. The clock jumps to the next event: a submission, the end of a start, the end of a departure, a finish, a change
of a speed, or the time at which the policies want to decide again. At each event the scheduler observes the changed jobs and decides,
until nothing more changes at that time. An event therefore costs what it changes, not the number of jobs.

With a model of the operator (:mod:`laneway.simulator.operator_model`), a decision comes some time after the change, one decision
follows the other when its writes have ended, workers start later or not at all, and jobs and nodes fail.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Mapping, Sequence

from laneway.scheduling import (
    JobState,
    Node,
    Policies,
    Scheduler,
    WaitingReason,
    WorkerPlacement,
)
from laneway.scheduling.model.past_services import ServiceLog
from laneway.scheduling.model.plan import WorkerAllotment
from laneway.simulator.costs import Costs
from laneway.simulator.events import OF_A_STATE, OF_NODES, WITHOUT_PROGRESS, Event
from laneway.simulator.executor import Executor
from laneway.simulator.fragmentation import Fragmentation
from laneway.simulator.history import History, Interval
from laneway.simulator.knowledge import Knowledge
from laneway.simulator.lost_attempts import LostAttempts
from laneway.simulator.meter import Meter
from laneway.simulator.models.alone import Alone
from laneway.simulator.models.model_speeds import ModelSpeeds
from laneway.simulator.models.speed_model import SpeedModel
from laneway.simulator.nodes import Nodes
from laneway.simulator.occupancy import Occupancy
from laneway.simulator.operator_model import IDEAL, OperatorModel, Starts
from laneway.simulator.progress import Progress
from laneway.simulator.run import Run
from laneway.simulator.scheduler_sync import SchedulerSync
from laneway.simulator.trace import TraceJob

_TICK_SECONDS = 1e-6
"""The smallest step to a due decision: sums of floats may miss a threshold by less."""

_MOST_DECISIONS_AT_ONCE = 1000
_MOST_IDLE_DECISIONS = 1000
"""The simulation ends after this many decisions while no job runs and none may come to run: no waiting job can ever start."""


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
        operator: OperatorModel = IDEAL,
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
            operator: how long the operator and the cluster take, and what goes wrong.
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

        model = model or Alone()
        self._model_speeds = ModelSpeeds(model, nodes)
        self._trace = {job.key: self._model_speeds.on_able_nodes(job) for job in trace}
        self._costs = costs = costs or Costs()
        self._timer = timer
        self._knowledge = knowledge or Knowledge()
        self._scheduler = Scheduler(nodes, policies)
        self._allocates = policies.allocation is not None
        self._occupancy = Occupancy(nodes)
        self._operator = operator
        self._starts = Starts(operator)
        self._nodes = Nodes(nodes)
        self._lost = LostAttempts(self, operator, self._nodes)
        self._sync = SchedulerSync(self._scheduler, self._nodes, self._lost)
        self._progress = Progress(self, model, self._knowledge, self._occupancy)
        self._executor = Executor(
            self,
            costs,
            operator,
            self._starts,
            self._nodes,
            self._lost,
            relative=policies.order.relative,
        )
        self._events: list[tuple[float, Event, str, int]] = [
            (job.submit_seconds, Event.SUBMIT, job.key, 0) for job in trace
        ]
        heapq.heapify(self._events)
        self._lost.expect_failures_of(nodes)
        self._due_seconds = math.inf
        """When the next decision is due."""

        self._due_again = False
        """Whether a measured speed may change the last decision."""

        self._idle_decisions = 0
        self._services = ServiceLog()
        """The services of the jobs that have finished so far."""

    @property
    def submitted(self) -> int:
        """The number of jobs of the trace, future submissions included."""
        return len(self._trace)

    @property
    def all_finished(self) -> bool:
        """Whether every job of the trace has finished."""
        return self.finished == len(self._trace)

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
        at_seconds = min(self._events[0][0] if self._events else math.inf, self._due_seconds)
        self._idle_decisions = 0 if self._may_change() else self._idle_decisions + 1
        if at_seconds == math.inf or self._idle_decisions > _MOST_IDLE_DECISIONS:
            return False
        self.meter.advance(at_seconds)
        self.now_seconds = at_seconds
        while self._events and self._events[0][0] <= at_seconds:
            _, event, key, version = heapq.heappop(self._events)
            self._handle(event, key, version)
            if event is not Event.MEASURED or self._due_again:
                self._due_seconds = min(self._due_seconds, at_seconds + self._operator.reaction_seconds)
        self._due_again = False
        self._progress.update_speeds()
        if self._due_seconds <= at_seconds:
            self._schedule()
        self.history.add_sample(self.meter.sample())
        return True

    def _may_change(self) -> bool:
        """Whether jobs run or may still come to run. Nodes fail and refused gangs are tried again for ever."""
        if not self._events:
            return False
        nobody = len(self.runs) == len(self._trace) and not self._occupancy.running
        return not nobody or self._events[0][1] not in WITHOUT_PROGRESS

    def _drop_void_events(self) -> None:
        """Drop the next events that are void."""
        while self._events and self._is_void(*self._events[0][1:]):
            heapq.heappop(self._events)

    def _is_void(self, event: Event, key: str, version: int) -> bool:
        return event in OF_A_STATE and self.runs[key].version != version

    def _handle(self, event: Event, key: str, version: int) -> None:
        if event is Event.SUBMIT:
            self._submit(self._trace[key])
        elif event in OF_NODES:
            self._lost.handle_node(event, key, version)
        elif not self._is_void(event, key, version):
            self._handle_run(event, self.runs[key], version)

    def _handle_run(self, event: Event, run: Run, version: int) -> None:
        if event is Event.STARTED:
            self._run(run)
        elif event is Event.GONE:
            self._leave(run)
        elif event is Event.FINISH:
            self._finish(run)
        elif event is Event.NOTICED:
            self._notice(run)
        elif event is Event.MILESTONE:
            self._progress.reach_milestone(run)
        elif event is Event.MEASURED:
            self._report_speed(run)
        else:
            self._lost.handle_run(event, run, version)

    def _submit(self, job: TraceJob) -> None:
        knowledge = self._knowledge
        run = Run(
            job,
            self.now_seconds,
            knowledge.expected_seconds(job),
            knowledge.profiled,
            knowledge.profile_of(job),
            self._model_speeds.of(job),
        )
        if job.checkpoint_seconds is not None:
            run.checkpoint_seconds = job.checkpoint_seconds
        elif job.saves and self._operator.failures.checkpoint_seconds:
            run.checkpoint_seconds = self._operator.failures.checkpoint_seconds
        self.runs[job.key] = run
        self.changed(run)
        self._scheduler.avoid(job.key, job.avoided_nodes)
        self.meter.count(run.state, 1)

    def _run(self, run: Run) -> None:
        """All workers of a job run."""
        self.enter(run, JobState.RUNNING)
        if self._operator is not IDEAL:
            run.end_rescale(self.now_seconds)
        self._lost.note_running(run)

    def _finish(self, run: Run) -> None:
        """The work of a job is done; the operator notices later."""
        if run.finish_seconds is not None:
            return
        run.accrue(self.now_seconds)
        run.speed = None
        run.version += 1
        run.counted_progress_seconds = run.job.duration_seconds  # but for rounding it was there already
        run.finish_seconds = self.now_seconds
        self.finished += 1
        self.held_until_finish_gpu_seconds = self.meter.held_gpu_seconds
        self.after(self._operator.latencies.notice_seconds, Event.NOTICED, run)

    def _notice(self, run: Run) -> None:
        """The operator knows that a job has finished."""
        if self._scheduler.learns_services:
            self._services.note(run.attained_gpu_seconds, completed=True)
            self._scheduler.learn_services(self._services.past(), self.now_seconds)
        self.enter(run, JobState.TERMINATING)
        self.after(self._costs.end_seconds, Event.GONE, run)

    def _leave(self, run: Run) -> None:
        """The last worker of a job is gone."""
        self._lost.note_freed(self._nodes.remove(run.job))
        if run.finish_seconds is None:
            self.enter(run, JobState.WAITING, ())
        else:
            self._forget(run)

    def _forget(self, run: Run) -> None:
        self.enter(run, JobState.TERMINATING, ())
        self.meter.count(run.state, -1)
        self._sync.forget(run.job.key)

    def enter(self, run: Run, state: JobState, placement: tuple[WorkerPlacement, ...] | None = None) -> None:
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
        self.changed(run)

    def _schedule(self) -> None:
        """Decide and apply, until nothing more changes at this time."""
        for _ in range(_MOST_DECISIONS_AT_ONCE):
            self._progress.update_speeds()
            self._sync.sync()
            self._starts.drop_ended(self.now_seconds)
            max_starts = self._operator.config.cycle.starts_per_cycle - len(self._starts)
            began = self._timer()
            decided = self._scheduler.decide(self.now_seconds, max(0, max_starts))
            self.decision_seconds += self._timer() - began
            self.decisions += 1
            again = self._executor.apply(decided)
            if not again or self._starts or self._operator.reaction_seconds:
                self._settle(again or decided.truncated)
                return
        raise RuntimeError(
            f"at {self.now_seconds} s the policies have not settled after {_MOST_DECISIONS_AT_ONCE} decisions: "
            "they start and preempt the same jobs in turn"
        )

    def _settle(self, again: bool) -> None:
        """End the decisions of this time, and plan the next one: when it is due, or when the first writes have ended."""
        self._progress.update_speeds()
        self._allocate()
        self._sync.sync()
        due = self._scheduler.next_decision_seconds(self.now_seconds)
        rest_seconds = max(_TICK_SECONDS, self._operator.rest_seconds)
        self._due_seconds = math.inf if due is None else max(due, self.now_seconds + rest_seconds)
        if again:
            written_seconds = self._starts.first_end_seconds(self.now_seconds)
            again_seconds = written_seconds + self._operator.reaction_seconds
            self._due_seconds = min(self._due_seconds, again_seconds)

    def _allocate(self) -> None:
        """Apply the allocation policy's CPUs and memory to the workers, if there is such a policy."""
        if self._allocates:
            decided = self._scheduler.decide(self.now_seconds)
            for key, allotments in self._scheduler.allotments(decided).items():
                self._allot(self.runs[key], tuple(allotments))
            self._progress.update_speeds()

    def _report_speed(self, run: Run) -> None:
        """Tell the scheduler the speed of a job beside those that share its GPUs, as measured by now."""
        if run.speed is not None:
            sharers, ratio = self._occupancy.sharers(run), run.speed.progress_ratio
            self._due_again |= self._scheduler.report_speed(run.job.key, ratio, sharers)

    def _allot(self, run: Run, allotments: tuple[WorkerAllotment, ...]) -> None:
        if run.allotments != allotments:
            run.allotments = allotments
            if run.state is JobState.RUNNING:
                self._occupancy.touch(run)

    def changed(self, run: Run) -> None:
        """Have the scheduler observe a job again."""
        self._sync.add_changed(run)

    def show(self, run: Run) -> None:
        """Have the scheduler observe a job again, and what the job avoids."""
        self._sync.show(run)

    def at(self, at_seconds: float, event: Event, key: str, version: int = 0) -> None:
        """Schedule an event of a job or a node."""
        heapq.heappush(self._events, (at_seconds, event, key, version))

    def after(self, delay_seconds: float, event: Event, run: Run) -> None:
        """Schedule an event of a job, or handle it at once if the delay is 0."""
        if delay_seconds <= 0:
            self._handle(event, run.job.key, run.version)
        else:
            self.at(self.now_seconds + delay_seconds, event, run.job.key, run.version)
