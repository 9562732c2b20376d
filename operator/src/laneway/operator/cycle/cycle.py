"""Computes each job's writes from the cluster's state, without I/O.

The reconciled jobs and the scheduler's input are kept between cycles, so that a cycle's cost depends only on what has changed.
The kept state saves time: a cycle without it makes the same decisions, with the exceptions that operator/README.md lists.

A write is the difference between a job's current and desired state. While a job has writes *in flight*, the cycle assumes its
desired state and leaves the job alone until they have ended, whatever their outcome.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from laneway.api.job_conditions import ConditionType
from laneway.api.job_names import JobSentence
from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.cycle.binding import may_bind
from laneway.operator.cycle.cpu_resizes import CPUResizes, ResizeWrite
from laneway.operator.cycle.deferred_statuses import DeferredStatuses
from laneway.operator.cycle.gpu_figures import gpu_gauges
from laneway.operator.cycle.held_parts import HeldParts
from laneway.operator.cycle.job_cache import JobCache
from laneway.operator.cycle.job_figures import job_gauges
from laneway.operator.cycle.node_orders import NodeWrite, node_writes
from laneway.operator.cycle.plan_steps import explains, has_another_reason, with_decision
from laneway.operator.cycle.scheduler_sync import SchedulerSync
from laneway.operator.cycle.start_estimates import StartEstimates
from laneway.operator.cycle.templates import ProfileWrite
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.cycle.writes import JobWrite, job_write
from laneway.operator.lifecycle import accounting, transitions
from laneway.operator.lifecycle.admission import ACCEPTED
from laneway.operator.pacing import (
    DEFERRED_AGAIN_SECONDS,
    PROFILES_PER_NAMESPACE,
    STARTING_TOLD_SECONDS,
    explain_interval_seconds,
    figures_interval_seconds,
)
from laneway.operator.state.cluster_state import ClusterState, Delta
from laneway.operator.state.records.profile_record import ProfileRecord
from laneway.scheduling import MAX_PREEMPTORS, Decision, InvalidPlan, JobState, WaitingCode, WaitingReason
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.model.held_rescale import HeldRescale
from laneway.scheduling.model.plan import PolicyFailure
from prometheus_client.core import GaugeMetricFamily

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What a cycle is to do."""

    writes: tuple[JobWrite, ...]
    """Those that are not empty."""

    orders: tuple[NodeWrite, ...]
    """Nodes whose orders are to change."""

    profiles: tuple[ProfileWrite, ...]
    """TrainingProfiles to be written."""

    resizes: tuple[ResizeWrite, ...]
    """Pods whose CPUs are to be changed."""

    surplus_profiles: tuple[ProfileRecord, ...]
    """TrainingProfiles to be deleted, because their namespace has too many, or they cannot be read."""

    due_seconds: float
    """When the next cycle is due though nothing changes."""

    decision: Decision
    waiting: Mapping[str, WaitingReason]
    """Why jobs wait, by key, in order; as of the last cycle that explained it."""

    problem: str = ""
    """Why there is no decision, as a sentence; what happened to jobs is written all the same. Empty where there is one."""

    policy_failures: tuple[PolicyFailure, ...] = ()
    """Policies that failed, each at the cost of its stage only."""


@dataclass(slots=True)
class CycleState:
    """What the steps of one cycle pass on."""

    cluster: ClusterState
    history: WriteHistory
    now_seconds: float
    in_flight: Collection[str]
    starting: int = 0
    """Jobs with writes of a start in flight."""

    decision: Decision = field(default_factory=Decision)
    requeued: Mapping[str, int] = field(default_factory=dict)
    explained: bool = False
    all_explained: bool = False
    held_back: Mapping[str, JobSentence] = field(default_factory=dict)
    """By uid of a job whose pods are not created yet: the CPUs that other workers are giving back for it."""

    concerned: set[str] = field(default_factory=set)
    """Uids of jobs whose new reason to wait is a step, and is written at once; and of those that were held back."""

    writes: dict[str, JobWrite] = field(default_factory=dict)
    """By uid."""

    @property
    def being_written(self) -> set[str]:
        """Uids of the jobs in flight, less those that are read again: such a read may fail for a long time."""
        return set(self.in_flight).difference(self.history.unread)


class Cycle:
    """Runs cycles, and remembers what it has seen."""

    def __init__(self, config: OperatorConfig) -> None:
        self._config = config
        self.forget()

    def forget(self) -> None:
        """Forget everything: the next cycle sees the cluster as if for the first time."""
        self._jobs = JobCache(self._config.timeouts)
        self._parts = HeldParts()
        self._start_over()

    def _start_over(self) -> None:
        """Have the next cycle tell a new scheduler everything. What is assumed of jobs with writes in flight is kept."""
        config = self._config
        self._sync = SchedulerSync(config)
        self._deferred = DeferredStatuses(config.cycle)
        self._estimates = StartEstimates(config.cycle)
        self._resizes = CPUResizes(divides=config.scheduling.allocates)
        self._waiting: Mapping[str, WaitingReason] = {}
        self._look_again: set[str] = set()
        """Keys of jobs that have changed since the last explanation."""

        self._explain_again_seconds = -math.inf
        self._promoted: frozenset[str] = frozenset()
        self._held_rescales: Mapping[str, HeldRescale] = {}
        """By key: why jobs keep their workers though their users ask for others; of the last cycle that looked at that."""

        self._preemptor_of: dict[str, str] = {}
        """Keys of preemptors, by the uid of a victim whose writes may still be in flight."""

        self._starts_over = True

    def run(
        self,
        cluster: ClusterState,
        history: WriteHistory,
        now_seconds: float,
        in_flight: Collection[str] = (),
    ) -> CycleResult:
        """Return what is to be written now.

        Args:
            cluster: what is known of it.
            history: what came of earlier writes.
            now_seconds: Unix time.
            in_flight: uids of jobs with writes in flight, and of those that are read again after a failed one.
        """
        this = CycleState(cluster, history, now_seconds, in_flight)
        # 1. Observe: what has changed since the cycle before.
        starts_over, self._starts_over = self._starts_over, False
        delta = cluster.everything() if starts_over else cluster.take_delta()
        if starts_over:
            delta.jobs |= self._jobs.jobs.keys()
            for uid, record in cluster.jobs.items():  # who ran beside those that turn out to have ended
                self._parts.update(uid, record.status, now_seconds)
        # 2. Reconcile: what happened to each changed job, and what its spec now asks for.
        changed = self._reconcile(this, delta)
        # 3. Sync: the scheduler gets what has changed.
        to_sync = changed | self._jobs.jobs.keys() if starts_over else changed
        kept = self._resizes.kept(history)
        self._sync.update(cluster, self._jobs, delta, to_sync, now_seconds, kept)
        # 4. Schedule: who starts, yields, resumes; and, now and then, why the others wait.
        problem = self._schedule(this)
        if not problem:
            self._explain(this)
        resizes = () if problem else self._resize(this)
        # 5. Apply: the steps become writes. Statuses that merely explain wait for the allowance.
        for uid in self._concerned(this, changed):
            self._apply(this, uid)
        self._flush_statuses(this)
        # 6. Execute: done by the engine. Until a job's writes have ended, its desired state is assumed.
        for uid, write in this.writes.items():
            if (preemption := this.decision.preemptions.get(write.job.key)) and preemption.preemptor:
                self._preemptor_of[uid] = preemption.preemptor
            self._deferred.forget(uid)
            self._jobs.assume(uid, write.after)
            self._parts.update(uid, write.status, now_seconds)
            if write.status.completion_time is not None:
                self._parts.forget(uid, now_seconds)
            self._sync.sync_job(write.after, cluster, now_seconds)
        result = CycleResult(
            writes=tuple(this.writes.values()),
            orders=self._orders(this),
            resizes=resizes,
            profiles=self._sync.templates.writes(cluster.profiles, history.busy_profiles, now_seconds),
            surplus_profiles=self._surplus_profiles(cluster, delta, now_seconds),
            due_seconds=self._due_seconds(this, problem),
            decision=this.decision,
            waiting=self._waiting,
            problem=problem,
            policy_failures=self._sync.scheduler.take_failures(),
        )
        if problem:
            self._start_over()
        return result

    @property
    def refused(self) -> Collection[str]:
        """Uids of jobs that back off because the API server refused their pods."""
        return self._jobs.refused

    @property
    def lends_cpus(self) -> bool:
        """Whether workers have more CPUs than they request, or other pods wait for them."""
        return self._resizes.lends

    def unused_profiles(self, cluster: ClusterState, now_seconds: float) -> tuple[ProfileRecord, ...]:
        """Return the TrainingProfiles to be deleted, of all namespaces."""
        return self._sync.templates.surplus(cluster.profiles, cluster.profiles, now_seconds)

    def gauges(self, now_seconds: float) -> Iterable[GaugeMetricFamily]:
        """Return where the jobs stand by the last cycle."""
        jobs = self._jobs
        unfinished = tuple(jobs.jobs[uid] for uid in jobs.unfinished)
        by_state = {"succeeded": jobs.completed, "failed": jobs.failed}
        ended = Counter(
            (jobs.jobs[uid].job.namespace, state) for state, uids in by_state.items() for uid in uids
        )
        return (
            *job_gauges(unfinished, ended, self._parts, now_seconds),
            *gpu_gauges(self._sync.scheduler.usable_gpus(), unfinished),
        )

    def _reconcile(self, this: CycleState, delta: Delta) -> set[str]:
        """Reconcile the changed jobs; return their uids, and those of jobs that are gone."""
        changed = self._jobs.update(this.cluster, delta, this.history, this.in_flight, this.now_seconds)
        for uid in changed:
            if uid in self._jobs.jobs:
                job = self._jobs.jobs[uid].job
                self._look_again.add(job.key)
                self._parts.update(uid, job.status, this.now_seconds)
            else:
                self._deferred.forget(uid)
                self._parts.forget(uid, this.now_seconds)
        return changed

    def _schedule(self, this: CycleState) -> str:
        """Decide; return why there is no decision. No more starts than can be written soon: a gang's time to start begins
        with its placement. Nor more preemptions: those that are written late are of a state that is long past."""
        being_written = this.being_written
        jobs = [self._jobs.jobs[uid] for uid in being_written if uid in self._jobs.jobs]
        this.starting = sum(job.state is JobState.STARTING for job in jobs)
        max_starts = max(0, self._config.cycle.starts_per_cycle - this.starting)
        self._preemptor_of = {uid: key for uid, key in self._preemptor_of.items() if uid in being_written}
        max_preemptors = max(0, MAX_PREEMPTORS - len(set(self._preemptor_of.values())))
        try:
            this.decision = self._sync.scheduler.decide(this.now_seconds, max_starts, max_preemptors)
            this.requeued = self._sync.scheduler.requeued()
        except InvalidPlan as error:
            return str(error)
        except Exception as error:
            # What happened to jobs is written all the same. Else a policy's bug would keep jobs from ending, too.
            logger.exception("a policy or the scheduler failed")
            return f"{type(error).__name__}: {error}"
        if not this.decision.truncated:
            self._held_rescales = this.decision.held_rescales
        return ""

    def _resize(self, this: CycleState) -> tuple[ResizeWrite, ...]:
        """Return the pods whose CPUs are to be changed, and have the jobs looked at whose pods no longer wait for CPUs."""
        held_before = self._resizes.held_back.keys()
        resizes = self._resizes.plan(
            this.cluster,
            self._jobs,
            self._sync,
            this.decision,
            this.history,
            this.in_flight,
            this.now_seconds,
        )
        this.held_back = self._resizes.held_back
        this.concerned |= {uid for uid in held_before - this.held_back.keys() if uid in self._jobs.jobs}
        return resizes

    def _explain(self, this: CycleState) -> None:
        """Work out why jobs wait, and defer the statuses that say otherwise. That costs time for each waiting job, so with many
        of them not every cycle does it; one that preempts does it for the preemptors, whose reasons are written at once."""
        now_seconds, scheduler = this.now_seconds, self._sync.scheduler
        all_again = now_seconds >= self._explain_again_seconds
        if not all_again and not this.decision.preemptions:
            return
        this.explained, this.all_explained = True, all_again
        before, look_again = self._waiting, self._look_again
        again = None if all_again else look_again
        self._waiting = waiting = scheduler.explain(this.decision, now_seconds, before, again=again)
        reported: Iterable[str] = waiting
        if all_again:
            look_again |= self._estimates.update(scheduler, waiting, now_seconds)
            self._look_again = set()
            self._explain_again_seconds = now_seconds + explain_interval_seconds(len(waiting))
        else:
            reported = [key for key in this.decision.waiting if key in waiting]
            look_again.update(key for key, reason in waiting.items() if reason is not before.get(key))
        for key in reported:
            reason = waiting[key]
            if (
                reason is before.get(key)
                and key not in look_again
                and reason.code is not WaitingCode.NODES_UNAVAILABLE  # its sentence depends on nodes
            ):
                continue
            uid = this.cluster.job_uids[key]
            if uid in this.in_flight:
                continue  # it is reconciled when they have ended
            job, status = self._jobs.jobs[uid], self._jobs.jobs[uid].job.status
            by_step = reason.code is WaitingCode.AWAITING_PREEMPTION or job.state is not JobState.WAITING
            if reason.code is WaitingCode.NOT_CONSIDERED:
                continue
            if has_another_reason(status, reason):
                if by_step:
                    this.concerned.add(uid)
                else:
                    self._defer(this, uid, at_once=True)
            elif not explains(
                key, status, reason, partial(self._sync.refused, job.job)
            ) or self._estimates.is_news(key, status.waiting):
                self._defer(this, uid)

    def _concerned(self, this: CycleState, changed: set[str]) -> list[str]:
        """Return the jobs that have changed or that the decision concerns, less those with writes in flight."""
        decision, uids = this.decision, this.cluster.job_uids
        promoted = frozenset(decision.promotions)
        keys = {*decision.starts, *decision.preemptions, *decision.resumes, *(promoted - self._promoted)}
        self._promoted = promoted
        for key in this.requeued:
            if key in uids and self._jobs.jobs[uids[key]].state is not JobState.WAITING:
                keys.add(key)
        keys |= self._held_rescales.keys()
        concerned = {uids[key] for key in keys if key in uids} | (changed & self._jobs.jobs.keys())
        return sorted((concerned | this.concerned).difference(this.in_flight))

    def _apply(self, this: CycleState, uid: str) -> None:
        """Write what a job's steps demand, or defer what can wait."""
        self._deferred.forget(uid)
        write = self._draft(this, uid)
        if write.empty:
            self._defer_figures(this, uid, write.status)
        elif _merely_explains(write):
            self._defer(this, uid, at_once=True)
        else:
            this.writes[uid] = self._counted(write, this.now_seconds)

    def _draft(self, this: CycleState, uid: str) -> JobWrite:
        """Return what is to be written of a job as the decision has it."""
        record, pods = this.cluster.jobs[uid], this.cluster.pods.get(uid, ())
        key = record.key
        after = with_decision(
            self._jobs.jobs[uid],
            this.decision,
            self._waiting.get(key) if this.explained else None,
            queue=self._sync.scheduler.queue(key),
            promoted=key in self._promoted,
            pods=pods,
            now_seconds=this.now_seconds,
            with_estimate=self._estimates.added,
            refused=partial(self._sync.refused, record),
            held_rescale=self._held_rescales.get(key) or self._sync.held_back(self._jobs.jobs[uid].job),
            elastic_policy=self._config.scheduling.elastic_policy,
        )
        after = after.becomes(accounting.wait_counted(after.job.status, this.now_seconds, record.status))
        if self._sync.probes is not None and (profile := after.job.status.profile) is not None:
            measured = self._sync.probes.added(uid, profile, after.job.status.attempt_workers)
            after = after.becomes(transitions.changed(after.job.status, profile=measured))
        if (awaited := this.held_back.get(uid)) and (waiting := after.job.status.waiting) is not None:
            waiting = waiting.model_copy(update={"message": awaited.for_namespace(record.namespace)})
            after = after.becomes(transitions.changed(after.job.status, waiting=waiting))
            after = replace(after, waits_for=awaited.jobs)
        template = self._sync.templates.of(record)
        write = job_write(record, after, pods, template)
        if uid in this.held_back:
            write = replace(write, creates=())
        if write.frees and write.takes:
            # An attempt that ends and the next are two writes: else jobs that swap GPUs wait for each other's release for ever.
            return job_write(record, self._jobs.jobs[uid], pods, template)
        bind_pods = self._config.bind_pods and not self._config.worker_runtime_class
        binds = bind_pods and may_bind(write, this.cluster)
        return replace(write, binds=True) if binds else write

    def _defer_figures(self, this: CycleState, uid: str, status: TrainingJobStatus) -> None:
        record = this.cluster.jobs[uid]
        if record.deleting or not record.managed:
            return
        if record.wrong_summary:
            self._defer(this, uid)
        elif status is not record.status and status != record.status:
            self._deferred.defer(uid, self._figures_due_seconds(this, uid, status))

    def _figures_due_seconds(self, this: CycleState, uid: str, status: TrainingJobStatus) -> float:
        """Return when new figures of a job are to be written."""
        now_seconds, state = this.now_seconds, self._jobs.jobs[uid].state
        interval_seconds, earliest_seconds = float(self._config.cycle.explain_seconds), 0.0
        if state is JobState.RUNNING:
            since_seconds = transitions.since_seconds(status, ConditionType.RUNNING, now_seconds)
            interval_seconds = figures_interval_seconds(
                interval_seconds,
                self._config.cycle.explanations_per_second,
                now_seconds - since_seconds,
                len(self._jobs.running),
            )
        elif state is JobState.STARTING:
            since_seconds = transitions.since_seconds(status, ConditionType.PLACED, now_seconds)
            earliest_seconds = since_seconds + STARTING_TOLD_SECONDS
        return max(earliest_seconds, this.history.written_seconds.get(uid, 0.0) + interval_seconds)

    def _defer(self, this: CycleState, uid: str, *, at_once: bool = False) -> None:
        written_seconds = this.history.written_seconds.get(uid, 0.0)
        wait_seconds = 0.0 if at_once else self._config.cycle.explain_seconds
        self._deferred.defer(uid, written_seconds + wait_seconds)

    def _flush_statuses(self, this: CycleState) -> None:
        """Write deferred statuses that are due, within the allowance."""
        if not this.explained:
            return
        deferred = self._deferred.take(
            this.starting, this.being_written, this.now_seconds, self._not_considered
        )
        for uid in deferred:
            write = self._counted(replace(self._draft(this, uid), writes_status=True), this.now_seconds)
            if write.after.events or write.status != write.job.status or write.job.wrong_summary:
                this.writes[uid] = write

    def _counted(self, write: JobWrite, now_seconds: float) -> JobWrite:
        """Count the service and the held GPU time up to now in a status that is written."""
        if not write.writes_status:
            return write
        status, starts = write.status, write.after.job.running and not write.job.running
        if not starts:  # a start counts nothing yet
            status = accounting.counted(status, now_seconds)
        status = self._parts.counted(write.job.uid, write.job.status, status, now_seconds)
        return replace(write, after=write.after.becomes(status))

    def _not_considered(self, uid: str) -> bool:
        """Whether it is not known yet why a job waits."""
        reason = self._waiting.get(self._jobs.jobs[uid].job.key)
        return reason is not None and reason.code is WaitingCode.NOT_CONSIDERED

    def _orders(self, this: CycleState) -> tuple[NodeWrite, ...]:
        """Return the nodes whose orders change now; the reasons are already written."""
        unwritten = this.writes.keys() | set(this.in_flight)
        return tuple(each for each in node_writes(this.cluster, self._jobs) if not each.jobs & unwritten)

    def _surplus_profiles(
        self, cluster: ClusterState, delta: Delta, now_seconds: float
    ) -> tuple[ProfileRecord, ...]:
        """Look only where profiles have changed, and are too many or cannot be read."""
        namespaces = set()
        for namespace, _, name in (key.partition("/") for key in delta.profiles):
            there = cluster.profiles.get(namespace, {})
            if len(there) > PROFILES_PER_NAMESPACE or (name in there and there[name].problem):
                namespaces.add(namespace)
        return self._sync.templates.surplus(cluster.profiles, namespaces, now_seconds)

    def _due_seconds(self, this: CycleState, problem: str) -> float:
        now_seconds = this.now_seconds
        if problem:  # a policy that failed may fail again when it is asked
            return now_seconds + self._config.cycle.resync_seconds
        if this.decision.truncated:
            # Each write that ends wakes the engine as well.
            return now_seconds + DEFERRED_AGAIN_SECONDS if this.starting else now_seconds
        decision_seconds = self._sync.scheduler.next_decision_seconds(now_seconds)
        return min(
            now_seconds + self._config.cycle.resync_seconds,
            self._jobs.due_seconds(),
            self._sync.due_seconds(),
            self._sync.templates.due_seconds(),
            self._deferred.due_seconds(now_seconds),
            self._resizes.due_seconds(),
            math.inf if decision_seconds is None else decision_seconds,
            math.inf if this.all_explained else self._explain_again_seconds,
        )


def _merely_explains(write: JobWrite) -> bool:
    """Whether a write only explains why a job waits."""
    return (
        write.after.state is JobState.WAITING
        and not write.changes_objects
        and not write.job.placed
        and all(each.reason == ACCEPTED for each in write.after.events)
    )
