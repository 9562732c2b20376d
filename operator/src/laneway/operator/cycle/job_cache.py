"""Every job as it was reconciled last. A job is reconciled again when something about it has changed, or when its time has come.

A job depends on its own record, its pods, their nodes (and what the agents report), the priority classes, what the API server
refused, and the clock; of the clock, each reconciled job says when it matters. Which of these has changed is in the
:class:`Delta`, so a cycle costs what has changed.

Figures that merely grow (turns, iterations, progress) are no reason to reconcile at once: of the jobs with only these
new, a few are reconciled in each cycle, in the order in which they were reported.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from laneway.api.job_conditions import SummaryState
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.between_attempts import expires_seconds, pods_refused_seconds
from laneway.operator.lifecycle.reconcile import reconcile
from laneway.operator.lifecycle.reconciled_job import ReconcileContext, ReconciledJob
from laneway.operator.pacing import EXPIRED_AT_ONCE, MEASURED_PER_CYCLE
from laneway.operator.state.cluster_state import ClusterState, Delta
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import JobState
from laneway.scheduling.config.operator_config import TimeoutsConfig
from laneway.scheduling.state.timers import Timers

logger = logging.getLogger(__name__)


class JobCache:
    """All jobs, by uid."""

    def __init__(self, timeouts: TimeoutsConfig) -> None:
        self.jobs: dict[str, ReconciledJob] = {}
        self.preempted: set[str] = set()
        """Jobs that are paused or offloaded, or are asked to be."""

        self.refused: set[str] = set()
        """Jobs that back off because the API server refused their pods."""

        self.unfinished: set[str] = set()
        """Jobs of this operator that have not ended. Those that have cost no time."""

        self.starting: set[str] = set()
        self.running: set[str] = set()
        self.completed: set[str] = set()
        self.failed: set[str] = set()
        self._timeouts = timeouts
        self._changed: set[str] = set()
        """Jobs to reconcile: those with writes in flight stay here until these have ended."""

        self._measured: dict[str, None] = {}
        self._due = Timers()
        self._expiries = Timers()
        """When jobs that ended long ago are to be deleted."""

        self._expired: set[str] = set()
        """Those whose time has come."""

        self._tried_seconds: dict[str, float] = {}
        """When the deletion of a job that is still there had ended: others go first then."""

        self._on_node: defaultdict[str, set[str]] = defaultdict(set)
        """Jobs with a pod on a node, and those that avoid it. A change of the node takes them out; a job that still belongs
        there is put back when it is reconciled for that change."""

        self._refused_on: defaultdict[str, set[str]] = defaultdict(set)
        """Jobs that kube-scheduler refused on a node; taken out as above, and when a worker leaves the node."""

        self._nodes_of: dict[str, frozenset[str]] = {}
        """The nodes of both, by job."""

        self._refused_before: tuple[Mapping[tuple[str, int], str], ...] = ({}, {})

    def due_seconds(self) -> float:
        """Return when the first job is to be reconciled though nothing changes; infinite: none is. While as many are being deleted as
        may be at once, no other expires: the end of a deletion is a change."""
        full = len(self._expired) >= EXPIRED_AT_ONCE
        return min(self._due.next_seconds(), math.inf if full else self._expiries.next_seconds())

    def update(
        self,
        state: ClusterState,
        delta: Delta,
        history: WriteHistory,
        in_flight: Collection[str],
        now_seconds: float,
    ) -> set[str]:
        """Reconcile the changed jobs; return the uids of these, and of those that are gone. Jobs that ended long ago are left out
        but for the first time: until then they may have held GPUs.

        Args:
            state: what is known of the cluster.
            delta: what has changed of it.
            history: what the API server refused.
            in_flight: uids of jobs with writes in flight: they count as what is being written, and are reconciled afterwards.
            now_seconds: Unix time.
        """
        self._changed |= self._take_changes(delta, history, now_seconds)
        gone = {uid for uid in self._changed if uid not in state.jobs}
        for uid in gone:
            self._forget(uid)
        self._take_expired(in_flight, now_seconds)
        ready = {uid for uid in self._changed - gone if uid not in in_flight or uid not in self.jobs}
        self._changed -= gone | ready
        ready |= self._take_measured(in_flight)
        context = ReconcileContext(
            state,
            self._timeouts,
            now_seconds,
            history.refusals,
            history.template_refusals,
            history.watched_since_seconds,
        )
        settled = {uid for uid in ready if self._is_settled(state, uid)}
        settles = {uid for uid in settled if uid in self.jobs and not self.jobs[uid].job.settled}
        for uid in settled:
            self._settle(state.jobs[uid])
        for uid in sorted(ready - settled):
            self._reconcile(state.jobs[uid], state.pods.get(uid, ()), context)
            if uid in in_flight:
                self._changed.add(uid)
        return (ready - settled) | settles | gone

    def assume(self, uid: str, reconciled: ReconciledJob) -> None:
        """Have a job count as what it is to be, until its writes have ended."""
        self.jobs[uid] = reconciled
        self._index(uid, reconciled)
        self._due.put(uid, math.inf)
        self._changed.add(uid)

    def _is_settled(self, state: ClusterState, uid: str) -> bool:
        """Whether nothing is to be done for a job until it expires."""
        return state.jobs[uid].settled and uid not in state.pods and uid not in self._expired

    def _settle(self, record: JobRecord) -> None:
        uid = record.uid
        self._put(uid, ReconciledJob(record, None))
        tried_seconds = self._tried_seconds.get(uid, -math.inf)
        self._expiries.put(uid, max(tried_seconds, expires_seconds(record, self._timeouts)))

    def _take_expired(self, in_flight: Collection[str], now_seconds: float) -> None:
        """Have the next few expired jobs reconciled, so that they are deleted; those that could not be deleted go behind the others."""
        for tried in self._expired.difference(in_flight):
            self._tried_seconds[tried] = now_seconds
            self._expiries.put(tried, now_seconds)
        self._expired.intersection_update(in_flight)
        for _ in range(len(self._expired), EXPIRED_AT_ONCE):
            if (uid := self._expiries.first_due(now_seconds)) is None:
                return
            self._expiries.forget(uid)
            self._expired.add(uid)
            self._changed.add(uid)

    def _take_changes(self, delta: Delta, history: WriteHistory, now_seconds: float) -> set[str]:
        changed = delta.jobs | self._due.pop_due(now_seconds)
        for node in delta.nodes:
            changed |= self._on_node.pop(node, set())
        for node in delta.nodes | delta.other_workers_on:
            changed |= self._refused_on.pop(node, set())
        if delta.priority_classes:
            changed |= self.jobs.keys()
        refused = (dict(history.refusals), dict(history.template_refusals))
        for before, now in zip(self._refused_before, refused, strict=True):
            changed |= {uid for (uid, _), _ in before.items() ^ now.items() if uid in self.jobs}
        self._refused_before = refused
        self._measured.update(delta.measured)
        return changed

    def _take_measured(self, in_flight: Collection[str]) -> set[str]:
        ready = (uid for uid in self._measured if uid not in in_flight)
        taken = set(islice(ready, MEASURED_PER_CYCLE))
        for uid in taken:
            del self._measured[uid]
        return taken & self.jobs.keys()

    def _reconcile(self, record: JobRecord, pods: tuple[WorkerPod, ...], context: ReconcileContext) -> None:
        uid, reconciled = record.uid, reconciled_or_refused(record, pods, context)
        avoided = {each.node for status in (record.status, reconciled.job.status) for each in status.avoid}
        refusal = reconciled.job.status.scheduler_refusal
        refusing = () if refusal is None else tuple(each.node for each in refusal.nodes)
        there = {pod.node for pod in pods if pod.node} | avoided
        self._leave_nodes(uid)
        for node in there:
            self._on_node[node].add(uid)
        for node in refusing:
            self._refused_on[node].add(uid)
        self._nodes_of[uid] = frozenset((*there, *refusing))
        self._put(uid, reconciled)
        if not reconciled.expired:
            self._expired.discard(uid)
        self._due.put(uid, min([reconciled.due_seconds, *_due_by_pods(pods, context)]))

    def _put(self, uid: str, reconciled: ReconciledJob) -> None:
        self.jobs[uid] = reconciled
        self._measured.pop(uid, None)
        self._index(uid, reconciled)
        self._due.forget(uid)  # the same moment counts again

    def _index(self, uid: str, reconciled: ReconciledJob) -> None:
        status, managed, finished = reconciled.job.status, reconciled.job.managed, reconciled.job.finished
        for members, belongs in (
            (self.preempted, status.preemption is not None),
            (self.refused, pods_refused_seconds(reconciled.job) is not None),
            (self.unfinished, managed and not finished),
            (self.starting, reconciled.state is JobState.STARTING),
            (self.running, reconciled.state is JobState.RUNNING),
            (self.completed, managed and status.state is SummaryState.COMPLETE),
            (self.failed, managed and status.state is SummaryState.FAILED),
        ):
            (members.add if belongs else members.discard)(uid)

    def _forget(self, uid: str) -> None:
        for timers in (self._due, self._expiries):
            timers.forget(uid)
        self._measured.pop(uid, None)
        self._tried_seconds.pop(uid, None)
        self.jobs.pop(uid, None)
        for members in (
            self._expired,
            self.preempted,
            self.refused,
            self.unfinished,
            self.starting,
            self.running,
            self.completed,
            self.failed,
        ):
            members.discard(uid)
        self._leave_nodes(uid)

    def _leave_nodes(self, uid: str) -> None:
        for node in self._nodes_of.pop(uid, ()):
            self._on_node[node].discard(uid)
            self._refused_on[node].discard(uid)


def reconciled_or_refused(
    record: JobRecord, pods: tuple[WorkerPod, ...], context: ReconcileContext
) -> ReconciledJob:
    """Reconcile a job. If that raises an exception, refuse the job, so that it does not stop the others."""
    try:
        return reconcile(record, pods, context)
    except Exception as error:
        logger.exception("job not reconciled", extra={"job": record.key})
        message = f"the operator cannot make sense of this job ({type(error).__name__}: {error}); see its log"
        refused = transitions.refused(record.status, "NotUnderstood", message, context.now_seconds)
        return ReconciledJob(record.with_status(refused), None)


def _due_by_pods(pods: tuple[WorkerPod, ...], context: ReconcileContext) -> Iterator[float]:
    """Yield the moments from which pods and their nodes count otherwise."""
    now_seconds, timeouts = context.now_seconds, context.timeouts
    moments = []
    for pod in pods:
        if pod.unschedulable_since_seconds is not None:
            moments.append(pod.unschedulable_since_seconds + timeouts.unschedulable_seconds)
        node = context.state.nodes.get(pod.node)
        if node is not None and node.not_ready_since_seconds is not None:
            moments.append(node.not_ready_since_seconds + timeouts.lost_node_seconds)
    yield from (moment for moment in moments if moment > now_seconds)
