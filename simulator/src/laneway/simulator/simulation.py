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
from laneway.simulator.events import OF_A_STATE, OF_NODES, WITHOUT_PROGRESS, Event
from laneway.simulator.fragmentation import Fragmentation
from laneway.simulator.history import History, Interval
from laneway.simulator.knowledge import Knowledge
from laneway.simulator.lost_attempts import LostAttempts
from laneway.simulator.meter import Meter
from laneway.simulator.models.alone import Alone
from laneway.simulator.models.speed_model import Speed, SpeedModel
from laneway.simulator.nodes import Nodes
from laneway.simulator.occupancy import Occupancy, uuids
from laneway.simulator.operator_model import IDEAL, OperatorModel, Starts
from laneway.simulator.run import Run
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

        self._operator = operator
        self._starts = Starts(operator)
        self._nodes = Nodes(nodes)
        self._lost = LostAttempts(self, operator, self._nodes)
        self._hidden: set[str] = set()
        """Jobs that back off: the scheduler does not know of them."""

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
        self._update_speeds()
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
            self._reach_milestone(run)
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
        )
        if job.checkpoint_seconds is not None:
            run.checkpoint_seconds = job.checkpoint_seconds
        elif job.saves and self._operator.failures.checkpoint_seconds:
            run.checkpoint_seconds = self._operator.failures.checkpoint_seconds
        self.runs[job.key] = self._changed[job.key] = run
        self._scheduler.avoid(job.key, job.avoided_nodes)
        self.meter.count(run.state, 1)

    def _run(self, run: Run) -> None:
        """All workers of a job run."""
        self.enter(run, JobState.RUNNING)
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
        self._changed[run.job.key] = run

    def _schedule(self) -> None:
        """Decide and apply, until nothing more changes at this time."""
        for _ in range(_MOST_DECISIONS_AT_ONCE):
            self._update_speeds()
            self._sync()
            self._starts.drop_ended(self.now_seconds)
            max_starts = self._operator.config.cycle.starts_per_cycle - len(self._starts)
            began = self._timer()
            decided = self._scheduler.decide(self.now_seconds, max(0, max_starts))
            self.decision_seconds += self._timer() - began
            self.decisions += 1
            again = self._apply(decided)
            if not again or self._starts or self._operator.reaction_seconds:
                self._settle(again or decided.truncated)
                return
        raise RuntimeError(
            f"at {self.now_seconds} s the policies have not settled after {_MOST_DECISIONS_AT_ONCE} decisions: "
            "they start and preempt the same jobs in turn"
        )

    def _settle(self, again: bool) -> None:
        """End the decisions of this time, and plan the next one: when it is due, or when the first writes have ended."""
        self._update_speeds()
        self._allocate()
        self._sync()
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
            if run.speed != speed and run.finish_seconds is None:
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
            self.at(at_seconds, Event.MEASURED, run.job.key, run.version)

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
        event = Event.FINISH if milestone_seconds >= run.job.duration_seconds else Event.MILESTONE
        left_seconds = max(0.0, milestone_seconds - run.counted_progress_seconds) / run.speed.progress_ratio
        at_seconds = run.counted_at_seconds + left_seconds
        self.at(at_seconds, event, run.job.key, run.version)

    def _milestone_seconds(self, run: Run) -> float:
        """Return the work done at the job's next milestone."""
        milestone_seconds = run.job.duration_seconds
        if run.speed is not None:
            milestone_seconds = min(milestone_seconds, run.speed.until_progress_seconds)
        if not run.profiled:
            milestone_seconds = min(milestone_seconds, self._knowledge.profiling_seconds(run.job))
        return milestone_seconds

    def _sync(self) -> None:
        """Show the scheduler the current state of the changed jobs and nodes."""
        nodes = self._nodes.take_changed()
        if nodes is not None:
            self._scheduler.set_nodes(nodes)
        for key, run in self._changed.items():
            if run.competes or run.placement:
                if key in self._hidden:
                    self._hidden.remove(key)
                    self._avoid(run)
                self._scheduler.observe(run.as_job())
            elif key not in self._hidden:
                self._hidden.add(key)
                self._scheduler.forget(key)
        self._changed.clear()

    def show(self, run: Run) -> None:
        """Have the scheduler observe a job again, and what the job avoids."""
        if run.job.key not in self._hidden:
            self._avoid(run)
        self._changed[run.job.key] = run

    def _avoid(self, run: Run) -> None:
        key = run.job.key
        self._scheduler.avoid(key, run.job.avoided_nodes | self._lost.avoided(key))

    def _apply(self, decided: Decision) -> bool:
        """Apply a decision, but to jobs with writes in flight or that have finished unnoticed. Return whether another decision may
        change more.

        Starts alone do not: they free nothing, and a job that did not fit beside them does not fit now; unless they change the
        ranks of others.
        """
        for key in decided.promotions:
            run = self.runs[key]
            if run.service_at_promotion_gpu_seconds != run.attained_gpu_seconds:
                run.service_at_promotion_gpu_seconds = run.attained_gpu_seconds
                self._changed[key] = run
        stopping = [key for key in decided.preemptions if self.runs[key].finish_seconds is None]
        for key in stopping:
            if key not in self._starts:
                self._preempt(self.runs[key], decided.preemptions[key])
        for key in decided.resumes:
            if key not in self._starts:
                self._resume(self.runs[key])
        for key, placement in decided.starts.items():
            self._start(self.runs[key], tuple(placement))
        return bool(stopping or decided.resumes or (decided.starts and self._relative))

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
        run.attempt += 1
        self.enter(run, JobState.STARTING, placement)
        written_seconds = self._starts.begin(run.job.key, len(placement), self.now_seconds)
        pods_seconds = written_seconds + self._operator.latencies.pods_seconds
        timeouts = self._operator.config.timeouts
        run.refused_nodes = self._nodes.bind(run.job, placement)
        if self._nodes.down(placement):
            self._lost.strand(run)
        elif run.refused_nodes:
            self.after(pods_seconds + timeouts.unschedulable_seconds, Event.ROLLED_BACK, run)
        elif pods_seconds > timeouts.gang_timeout_seconds or self._operator.failures.does_not_start(
            run.job.key, run.attempt
        ):
            self.after(timeouts.gang_timeout_seconds, Event.ROLLED_BACK, run)
        else:
            self.after(self._drain_seconds(placement) + cost_seconds + pods_seconds, Event.STARTED, run)

    def _resume(self, run: Run) -> None:
        offloaded = run.state is JobState.OFFLOADED
        cost_seconds = (
            self._costs.restore_seconds(run.job.profile) if offloaded else self._costs.resume_seconds
        )
        self.enter(run, JobState.STARTING)
        run.attempt += 1
        orders_seconds = self._operator.stop_writes_seconds
        self.after(self._drain_seconds(run.placement) + cost_seconds + orders_seconds, Event.STARTED, run)

    def _preempt(self, run: Run, preemption: Preemption) -> None:
        if preemption.reason is PreemptionReason.RESCALED:
            run.rescales += 1
        else:
            run.preemptions += 1
        if preemption.action is PreemptionAction.EVICT:
            run.evictions += 1
            self.enter(run, JobState.TERMINATING)
            run.stop()
            self.after(self._costs.leave_seconds + self._operator.stop_writes_seconds, Event.GONE, run)
        elif preemption.action is PreemptionAction.OFFLOAD:
            self.enter(run, JobState.OFFLOADED)
            self._drain(run, self._costs.offload_seconds(run.job.profile))
        else:
            self.enter(run, JobState.PAUSED)
            self._drain(run, self._costs.pause_seconds)

    def _drain(self, run: Run, delay_seconds: float) -> None:
        """Keep others from running on the GPUs of a job that is being paused until it has stopped."""
        delay_seconds += self._operator.stop_writes_seconds
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

    def at(self, at_seconds: float, event: Event, key: str, version: int = 0) -> None:
        """Schedule an event of a job or a node."""
        heapq.heappush(self._events, (at_seconds, event, key, version))

    def after(self, delay_seconds: float, event: Event, run: Run) -> None:
        """Schedule an event of a job, or handle it at once if the delay is 0."""
        if delay_seconds <= 0:
            self._handle(event, run.job.key, run.version)
        else:
            self.at(self.now_seconds + delay_seconds, event, run.job.key, run.version)
