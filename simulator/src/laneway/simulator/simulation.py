"""Discrete events around the very function that the operator calls.

There is no time step: the clock jumps to the next submission, end of a start, end of a departure, finish, or moment at
which the policies say that time alone changes their mind. At each, ``laneway.scheduling.plan`` decides, until it has
nothing more to change at that moment.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from enum import IntEnum

from laneway.scheduling import (
    ClusterSnapshot,
    JobState,
    Node,
    Plan,
    Policies,
    WaitingReason,
    WorkerPlacement,
    next_decision_seconds,
    plan,
)
from laneway.simulator.costs import Costs
from laneway.simulator.run import Run
from laneway.simulator.trace import TraceJob

_TICK_SECONDS = 1e-6
"""The least step to a decision that is due: sums of floats may fall short of a threshold by less."""

_MOST_PLANS_AT_ONCE = 1000


class _Event(IntEnum):
    """What an event is about; of events at one moment, the smaller comes first."""

    FINISH = 0
    GONE = 1
    STARTED = 2
    SUBMIT = 3


class Simulation:
    """One trace under one set of policies. :meth:`step` until it returns False, or :meth:`run`."""

    def __init__(
        self,
        trace: Sequence[TraceJob],
        nodes: Sequence[Node],
        policies: Policies,
        costs: Costs | None = None,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Prepare a simulation.

        Args:
            trace: the jobs.
            nodes: the cluster.
            policies: who decides.
            costs: what starting and preempting cost in time.
            timer: a clock in seconds, by which the time spent deciding is measured.
        """
        self.runs: dict[str, Run] = {}
        self.waiting: dict[str, WaitingReason] = {}
        """Why those that wait do, as of the last plan."""

        self.now_seconds = 0.0
        self.decision_seconds = 0.0
        self.decisions = 0
        self.finished = 0
        self.used_gpu_seconds = 0.0
        """GPUs held, over time; a start or a departure holds them too."""

        self._trace = {job.key: job for job in trace}
        self._nodes = tuple(nodes)
        self._policies = policies
        self._costs = costs or Costs()
        self._timer = timer
        self._active: dict[str, Run] = {}
        self._events: list[tuple[float, _Event, str, int]] = [
            (job.submit_seconds, _Event.SUBMIT, job.key, 0) for job in trace
        ]
        heapq.heapify(self._events)
        self._due_seconds: float | None = None

    @property
    def submitted(self) -> int:
        """Jobs of the trace, those not reached yet included."""
        return len(self._trace)

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Simulate to the end: until every job that can run has finished.

        Args:
            progress: told how many jobs have finished, of how many, after every step.
        """
        while self.step():
            if progress is not None:
                progress(self.finished, len(self._trace))

    def step(self) -> bool:
        """Go to the next moment at which something happens, and decide. False: nothing happens any more."""
        moments = [self._events[0][0]] if self._events else []
        if self._due_seconds is not None:
            moments.append(self._due_seconds)
        if not moments:
            return False
        self._advance(min(moments))
        while self._events and self._events[0][0] <= self.now_seconds:
            self._happen(*heapq.heappop(self._events)[1:])
        self._decide()
        return True

    def _advance(self, to_seconds: float) -> None:
        held_gpus = sum(run.gpus for run in self._active.values())
        self.used_gpu_seconds += held_gpus * (to_seconds - self.now_seconds)
        self.now_seconds = to_seconds

    def _happen(self, event: _Event, key: str, changes: int) -> None:
        if event is _Event.SUBMIT:
            self.runs[key] = self._active[key] = Run(self._trace[key], self.now_seconds)
            return
        run = self.runs[key]
        if run.changes != changes:
            return  # it was planned for a state that the job has left
        if event is _Event.STARTED:
            self._enter_running(run)
        elif event is _Event.GONE:
            self._enter_waiting(run)
        else:
            run.enter(JobState.LEAVING, self.now_seconds)
            run.placement = ()
            run.finish_seconds = self.now_seconds
            self.finished += 1
            del self._active[key]

    def _decide(self) -> None:
        """Plan and carry out, until the plan has nothing more to change at this moment."""
        for _ in range(_MOST_PLANS_AT_ONCE):
            snapshot = self._snapshot()
            began = self._timer()
            decided = plan(snapshot, self.now_seconds, self._policies)
            self.decision_seconds += self._timer() - began
            self.decisions += 1
            self._carry_out(decided)
            if not (decided.starts or decided.preemptions):
                self.waiting = dict(decided.waiting)
                due = next_decision_seconds(snapshot, self.now_seconds, self._policies)
                self._due_seconds = None if due is None else max(due, self.now_seconds + _TICK_SECONDS)
                return
        raise RuntimeError(
            f"at {self.now_seconds} s the policies have not settled after {_MOST_PLANS_AT_ONCE} plans: "
            "they start and preempt the same jobs in turn"
        )

    def _snapshot(self) -> ClusterSnapshot:
        return ClusterSnapshot(
            self._nodes, tuple(run.as_job(self.now_seconds) for run in self._active.values())
        )

    def _carry_out(self, decided: Plan) -> None:
        for key in decided.promotions:
            run = self.runs[key]
            run.service_at_promotion_gpu_seconds = run.attained_before_gpu_seconds
        for key, placement in decided.starts.items():
            self._start(self.runs[key], placement)
        for key in decided.preemptions:
            run = self.runs[key]
            run.enter(JobState.LEAVING, self.now_seconds)
            run.preemptions += 1
            self._after(self._costs.leave_seconds, _Event.GONE, run)

    def _start(self, run: Run, placement: Sequence[WorkerPlacement]) -> None:
        again = run.first_start_seconds is not None
        if not again:
            run.first_start_seconds = self.now_seconds
        run.enter(JobState.STARTING, self.now_seconds)
        run.placement = tuple(placement)
        delay_seconds = self._costs.restart_seconds if again else self._costs.start_seconds
        self._after(delay_seconds, _Event.STARTED, run)

    def _enter_running(self, run: Run) -> None:
        run.enter(JobState.RUNNING, self.now_seconds)
        self._after(run.remaining_seconds, _Event.FINISH, run)

    def _enter_waiting(self, run: Run) -> None:
        run.enter(JobState.WAITING, self.now_seconds)
        run.placement = ()

    def _after(self, delay_seconds: float, event: _Event, run: Run) -> None:
        """Let something happen to a job later, or at once where it takes no time."""
        if delay_seconds <= 0 and event is not _Event.FINISH:
            self._happen(event, run.job.key, run.changes)
        else:
            heapq.heappush(
                self._events, (self.now_seconds + max(0.0, delay_seconds), event, run.job.key, run.changes)
            )
