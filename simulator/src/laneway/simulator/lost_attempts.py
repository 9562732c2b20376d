"""What ends attempts early, and what follows: failed nodes, failed workers, gangs that do not start, and the back-off after each."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from laneway.scheduling import JobState, Node
from laneway.simulator.attempts import Attempts
from laneway.simulator.events import Event
from laneway.simulator.nodes import Nodes
from laneway.simulator.operator_model import NODE_MONITOR_GRACE_SECONDS, OperatorModel
from laneway.simulator.run import Run
from laneway.simulator.stage import Stage


class LostAttempts:
    """Ends the attempts of a simulation that fail or do not start."""

    def __init__(self, stage: Stage, operator: OperatorModel, nodes: Nodes) -> None:
        self._stage = stage
        self._operator = operator
        self._nodes = nodes
        self._attempts = Attempts(operator.config.timeouts)

    def expect_failures_of(self, nodes: Iterable[Node]) -> None:
        """Schedule the first failure of each node."""
        for node in nodes:
            at_seconds = self._operator.failures.node_fails_after_seconds(node.name, 0)
            if at_seconds < math.inf:
                self._stage.at(at_seconds, Event.NODE_DOWN, node.name, 1)

    def avoided(self, key: str) -> frozenset[str]:
        """Return the nodes that a job avoids because of its past attempts."""
        return self._attempts.avoided(key, self._stage.now_seconds)

    def note_running(self, run: Run) -> None:
        """All workers of a job run: its unstarted attempts are forgotten, and it may fail."""
        key = run.job.key
        self._attempts.ran(key)
        run.preempts = True
        fails_after_seconds = self._operator.failures.job_fails_after_seconds(key, run.attempt)
        if fails_after_seconds < math.inf:
            at_seconds = self._stage.now_seconds + fails_after_seconds
            self._stage.at(at_seconds, Event.FAILED, key, run.attempt)

    def note_freed(self, nodes: Collection[str]) -> None:
        """Pods are gone from nodes: jobs that were refused there may come again."""
        for key, at_seconds in self._attempts.freed(nodes, self._stage.now_seconds).items():
            self._stage.at(at_seconds, Event.REVIEW, key)

    def handle_run(self, event: Event, run: Run, version: int) -> None:
        """Handle an event of a job: ``ROLLED_BACK``, ``FAILED``, ``LOST`` or ``REVIEW``."""
        if event is Event.ROLLED_BACK:
            self._roll_back(run)
        elif event is Event.FAILED:
            self._fail(run, attempt=version)
        elif event is Event.LOST:
            self._lose(run)
        else:
            self._review(run)

    def handle_node(self, event: Event, node: str, times: int) -> None:
        """A node fails for the n-th time, is known to be not ready, or is up again."""
        stage, failures = self._stage, self._operator.failures
        if event is Event.NODE_DOWN:
            up_seconds = stage.now_seconds + failures.node_repair_seconds
            self._nodes.fail(node, up_seconds)
            stage.at(up_seconds, Event.NODE_UP, node, times)
            stage.at(stage.now_seconds + NODE_MONITOR_GRACE_SECONDS, Event.NODE_NOT_READY, node, times)
            for run in stage.runs.values():
                there = any(worker.node == node for worker in run.placement)
                if there and run.state is not JobState.TERMINATING and run.finish_seconds is None:
                    self.strand(run)
            return
        if event is Event.NODE_NOT_READY:
            self._nodes.miss(node)
            return
        self._nodes.come_back(node)
        if not stage.all_finished:
            down_seconds = stage.now_seconds + failures.node_fails_after_seconds(node, times)
            stage.at(down_seconds, Event.NODE_DOWN, node, times + 1)

    def strand(self, run: Run) -> None:
        """A node of a job has failed: the gang holds its GPUs and does not train, until the operator gives it up."""
        self._stage.enter(run, JobState.STARTING)
        run.lose_unsaved_work()
        given_up_seconds = NODE_MONITOR_GRACE_SECONDS + self._operator.config.timeouts.lost_node_seconds
        up_seconds = self._nodes.down_seconds(run.placement, self._stage.now_seconds)
        self._stage.after(min(given_up_seconds, up_seconds), Event.LOST, run)

    def _roll_back(self, run: Run) -> None:
        """Give an attempt up that has not started as a whole: kube-scheduler refuses workers, or it takes too long."""
        run.rollbacks += 1
        key, refused = run.job.key, run.refused_nodes
        self._stage.enter(run, JobState.TERMINATING)
        avoid = refused or run.last_nodes
        due = self._attempts.not_started(key, self._stage.now_seconds, avoid, refused=bool(refused))
        run.preempts = self._attempts.preempts(key)
        self._end(run, due, self._operator.latencies.notice_seconds)

    def _fail(self, run: Run, attempt: int) -> None:
        """A worker of a running job fails: the gang restarts from its last checkpoint."""
        if run.attempt != attempt or run.state is not JobState.RUNNING or run.finish_seconds is not None:
            return
        run.failures += 1
        noticed_seconds = self._stage.now_seconds + self._operator.latencies.notice_seconds
        node = run.placement[attempt % len(run.placement)].node
        self._stage.enter(run, JobState.TERMINATING)
        run.lose_unsaved_work()
        due = self._attempts.failed(run.job.key, noticed_seconds, node)
        self._end(run, due, self._operator.latencies.notice_seconds)

    def _lose(self, run: Run) -> None:
        """Give the workers on failed nodes up: they are gone once their node is up, or they are force-deleted."""
        run.failures += 1
        lost = self._nodes.down(run.placement)
        self._stage.enter(run, JobState.TERMINATING)
        due = self._attempts.disrupted(run.job.key, self._stage.now_seconds, lost)
        timeouts = self._operator.config.timeouts
        gone_seconds = self._nodes.down_seconds(run.placement, self._stage.now_seconds)
        if timeouts.lost_node_removal_seconds:
            waits_seconds = timeouts.lost_node_removal_seconds - timeouts.lost_node_seconds
            gone_seconds = min(gone_seconds, max(0.0, waits_seconds))
        self._end(run, due, gone_seconds)

    def _end(self, run: Run, due: Collection[float], pods_gone_seconds: float) -> None:
        """Have the workers go, and look at the job again when it no longer backs off or avoids nodes."""
        self._review(run)
        for at_seconds in due:
            self._stage.at(at_seconds, Event.REVIEW, run.job.key)
        self._stage.after(self._operator.stop_writes_seconds + pods_gone_seconds, Event.GONE, run)

    def _review(self, run: Run) -> None:
        """Bring up to date what a job's past attempts keep it from."""
        key, now_seconds = run.job.key, self._stage.now_seconds
        if run.state is JobState.TERMINATING and run.finish_seconds is not None:
            return
        self._attempts.review(key, now_seconds)
        run.preempts = self._attempts.preempts(key)
        backs_off = self._attempts.backs_off(key, now_seconds)
        if run.state is JobState.WAITING and not run.competes and not backs_off:
            run.state_since_seconds = now_seconds
        run.competes = not backs_off
        self._stage.show(run)
