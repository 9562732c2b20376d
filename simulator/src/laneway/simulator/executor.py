"""Carries decisions out: starts, resumptions and preemptions, with what they cost."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.scheduling import (
    Decision,
    JobState,
    Preemption,
    PreemptionAction,
    PreemptionReason,
    WorkerPlacement,
)
from laneway.simulator.costs import Costs
from laneway.simulator.events import Event
from laneway.simulator.lost_attempts import LostAttempts
from laneway.simulator.nodes import Nodes
from laneway.simulator.occupancy import uuids
from laneway.simulator.operator_model import OperatorModel, Starts
from laneway.simulator.run import Run
from laneway.simulator.stage import Stage


class Executor:
    """Applies decisions to the runs of a simulation."""

    def __init__(
        self,
        stage: Stage,
        costs: Costs,
        operator: OperatorModel,
        starts: Starts,
        nodes: Nodes,
        lost: LostAttempts,
        *,
        relative: bool,
    ) -> None:
        """Prepare.

        Args:
            stage: the simulation.
            costs: the time that starts and preemptions cost.
            operator: how long the operator and the cluster take, and what goes wrong.
            starts: the writes of starts that are in flight.
            nodes: the cluster, as it is.
            lost: what ends attempts early.
            relative: whether a start changes the ranks of other jobs.
        """
        self._stage = stage
        self._costs = costs
        self._operator = operator
        self._starts = starts
        self._nodes = nodes
        self._lost = lost
        self._relative = relative
        self._drained_at_seconds: dict[str, float] = {}
        """By GPU with a job that is being paused: when others can run there."""

    def apply(self, decided: Decision) -> bool:
        """Apply a decision, but to jobs with writes in flight or that have finished unnoticed. Return whether another decision may
        change more.

        Starts alone do not: they free nothing, and a job that did not fit beside them does not fit now; unless they change the
        ranks of others.
        """
        for key in decided.promotions:
            run = self._stage.runs[key]
            if run.service_at_promotion_gpu_seconds != run.attained_gpu_seconds:
                run.service_at_promotion_gpu_seconds = run.attained_gpu_seconds
                self._stage.changed(run)
        stopping = [key for key in decided.preemptions if self._stage.runs[key].finish_seconds is None]
        for key in stopping:
            if key not in self._starts:
                self._preempt(self._stage.runs[key], decided.preemptions[key])
        for key in decided.resumes:
            if key not in self._starts:
                self._resume(self._stage.runs[key])
        for key, placement in decided.starts.items():
            self._start(self._stage.runs[key], tuple(placement))
        return bool(stopping or decided.resumes or (decided.starts and self._relative))

    def _start(self, run: Run, placement: tuple[WorkerPlacement, ...]) -> None:
        nodes = frozenset(worker.node for worker in placement)
        if run.first_start_seconds is None:
            run.first_start_seconds = self._stage.now_seconds
            cost_seconds = self._costs.start_seconds
        else:
            cost_seconds = self._costs.restart_seconds
            if not nodes <= run.last_nodes:
                run.migrations += 1
                cost_seconds += self._costs.migration_seconds
        run.last_nodes, run.last_workers = nodes, len(placement)
        run.attempt += 1
        self._stage.enter(run, JobState.STARTING, placement)
        written_seconds = self._starts.begin(run.job.key, len(placement), self._stage.now_seconds)
        pods_seconds = written_seconds + self._operator.latencies.pods_seconds
        timeouts = self._operator.config.timeouts
        run.refused_nodes = self._nodes.bind(run.job, placement)
        if self._nodes.down(placement):
            self._lost.strand(run)
        elif run.refused_nodes:
            self._stage.after(pods_seconds + timeouts.unschedulable_seconds, Event.ROLLED_BACK, run)
        elif pods_seconds > timeouts.gang_timeout_seconds or self._operator.failures.does_not_start(
            run.job.key, run.attempt
        ):
            self._stage.after(timeouts.gang_timeout_seconds, Event.ROLLED_BACK, run)
        else:
            self._stage.after(
                self._drain_seconds(placement) + cost_seconds + pods_seconds, Event.STARTED, run
            )

    def _resume(self, run: Run) -> None:
        offloaded = run.state is JobState.OFFLOADED
        cost_seconds = (
            self._costs.restore_seconds(run.job.profile) if offloaded else self._costs.resume_seconds
        )
        self._stage.enter(run, JobState.STARTING)
        run.attempt += 1
        orders_seconds = self._operator.stop_writes_seconds
        self._stage.after(
            self._drain_seconds(run.placement) + cost_seconds + orders_seconds, Event.STARTED, run
        )

    def _preempt(self, run: Run, preemption: Preemption) -> None:
        if preemption.reason is PreemptionReason.RESCALING:
            run.begin_rescale(self._stage.now_seconds)
        else:
            run.preemptions += 1
        if preemption.action is PreemptionAction.EVICT:
            run.evictions += 1
            self._stage.enter(run, JobState.TERMINATING)
            run.stop()
            self._stage.after(self._costs.leave_seconds + self._operator.stop_writes_seconds, Event.GONE, run)
        elif preemption.action is PreemptionAction.OFFLOAD:
            self._stage.enter(run, JobState.OFFLOADED)
            self._drain(run, self._costs.offload_seconds(run.job.profile))
        else:
            self._stage.enter(run, JobState.PAUSED)
            self._drain(run, self._costs.pause_seconds)

    def _drain(self, run: Run, delay_seconds: float) -> None:
        """Keep others from running on the GPUs of a job that is being paused until it has stopped."""
        delay_seconds += self._operator.stop_writes_seconds
        if delay_seconds > 0:
            for uuid in uuids(run.placement):
                drained_seconds = self._drained_at_seconds.get(uuid, 0.0)
                self._drained_at_seconds[uuid] = max(drained_seconds, self._stage.now_seconds + delay_seconds)

    def _drain_seconds(self, placement: Sequence[WorkerPlacement]) -> float:
        """Return the time until all jobs that are being paused on these GPUs have stopped."""
        if not self._drained_at_seconds:
            return 0.0
        latest_seconds = max(self._drained_at_seconds.get(uuid, 0.0) for uuid in uuids(placement))
        return max(0.0, latest_seconds - self._stage.now_seconds)
