"""Keeps the scheduler's nodes and jobs in step with the cluster: it gets what has changed, and nothing else."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from laneway.operator.cycle.cpu_probes import CPUProbes, limited_cpus
from laneway.operator.cycle.job_cache import JobCache
from laneway.operator.cycle.node_choice import NodeChoice
from laneway.operator.cycle.scheduler_jobs import scheduler_job
from laneway.operator.cycle.scheduler_nodes import NOTHING_KEPT, KeptCPUs, first_reporters, scheduler_node
from laneway.operator.cycle.shared_speeds import SpeedBook, count_of, profile_now
from laneway.operator.cycle.templates import TemplateBook, template_of
from laneway.operator.cycle.tenants import node_tenants
from laneway.operator.lifecycle import failed_workers, transitions
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.state.cluster_state import ClusterState, Delta
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.waiting_pod import WaitingPod
from laneway.scheduling import Job, JobState, Node, Scheduler
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.model.held_rescale import HeldRescale
from laneway.scheduling.state.timers import Timers

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _SyncedNode:
    """One node with GPUs, as the scheduler has it."""

    node: Node
    gpus: tuple[str, ...]
    """All that its agent reports."""

    releasing: dict[str, Job]
    """By key: sessions that are about to end, each as a job that releases its GPU."""


class SchedulerSync:
    """The scheduler, and what it was given."""

    def __init__(self, config: OperatorConfig) -> None:
        self.scheduler = Scheduler((), config.policies())
        self.templates = TemplateBook()
        self.probes = CPUProbes() if config.scheduling.measures_cpus else None
        self._speeds = SpeedBook()
        self._rules = config.lane_rules()
        self._elastic = bool(config.scheduling.elastic_policy)
        self._active_percent = config.active_percent
        self._resizes = config.scheduling.allocates
        self._kept = NOTHING_KEPT
        self._models: frozenset[str] = frozenset()
        """Of all GPUs."""

        self._levels = config.scheduling.topology.levels
        self._choice = NodeChoice()
        self._nodes: dict[str, _SyncedNode] = {}
        self._due = Timers()
        """When a node changes by itself."""

        self._node_of: dict[str, str] = {}
        """By GPU: the node that has it."""

        self._jobs: dict[str, Job] = {}
        """By uid."""

        self._gangs_on: defaultdict[str, set[str]] = defaultdict(set)
        """By node and by GPU: uids of jobs, gone ones too, with workers there. Another node may report a GPU later."""

        self._places_of: dict[str, set[str]] = {}
        """The same, by uid."""

    def due_seconds(self) -> float:
        """Return when the first node changes by itself; infinite: none does."""
        return self._due.next_seconds()

    def refused(self, job: JobRecord) -> str:
        """Return to which nodes a job's template does not let it, and why; empty where to all."""
        return "" if job.desired is None else self._choice.refused(job.desired.spec.template["spec"]).sentence

    def held_back(self, job: JobRecord) -> HeldRescale | None:
        """Return why a job runs on although its spec asks for a number of workers with which it fails; None where it does not."""
        return None if self._elastic else failed_workers.held_back(job)

    def keeps_off(self, pod: WaitingPod) -> Collection[str]:
        """Return the nodes with GPUs to which another pod cannot go."""
        return self._choice.refused(pod.spec, worker=False).nodes

    def update(
        self,
        state: ClusterState,
        cache: JobCache,
        delta: Delta,
        changed: set[str],
        now_seconds: float,
        kept: KeptCPUs = NOTHING_KEPT,
    ) -> None:
        """Give the scheduler what has changed.

        Args:
            state: what is known of the cluster.
            cache: the jobs, reconciled.
            delta: what has changed of the cluster.
            changed: uids of jobs that were reconciled or are gone.
            now_seconds: Unix time.
            kept: the CPUs that workers cannot be made to give back.
        """
        for uid in changed:
            self.templates.note(uid, state.jobs.get(uid) or state.ended_jobs.get(uid), now_seconds)
        for job in delta.deleted.values():
            self.templates.note_deleted(job, now_seconds)
        for uid in changed.difference(cache.jobs):
            self._forget_job(uid)
        nodes = {name for name in delta.nodes if name in state.gpu_nodes or name in self._nodes}
        gpus_moved = self._gpus_moved(state, nodes)
        if gpus_moved:
            self._models = frozenset(gpu.model for each in state.gpu_nodes.values() for gpu in each.gpus)
        of_templates = self.templates.refresh(state.profiles, delta.profiles, now_seconds, self._models)
        jobs = (changed | of_templates) & cache.jobs.keys()
        if gpus_moved:
            self._node_of = first_reporters(state.gpu_nodes.values())
            nodes |= state.gpu_nodes.keys() | self._nodes.keys()
            jobs |= {
                uid
                for uid, job in cache.jobs.items()
                if job.state is not None and (uid in self._jobs) is not self._can_place(job)
            }
        for uid in jobs | changed | delta.jobs:
            nodes |= self._locate(uid, state, cache)
        nodes |= self._due.pop_due(now_seconds)
        if kept != self._kept:
            self._kept = kept
            nodes |= self._nodes.keys()
        self._sync_nodes(nodes, state, cache, now_seconds)
        other_choice = bool(nodes) and self._choice.set_nodes(
            state.nodes[name] for name in self._nodes if name in state.nodes
        )
        for uid in jobs:
            self.sync_job(cache.jobs[uid], state, now_seconds)
            self._sync_speed(cache.jobs[uid], state)
        for uid in self._jobs.keys() - jobs if other_choice else ():
            self._sync_avoided(cache.jobs[uid], now_seconds)
        if self.scheduler.learns_services:
            self._sync_services(now_seconds)

    def _sync_services(self, now_seconds: float) -> None:
        """Give the scheduler the services of ended jobs, as the TrainingProfiles have them."""
        past = self.templates.past_services()
        if self.scheduler.learn_services(past, now_seconds):
            extra = {"completed": past.completed, "stopped": past.stopped}
            logger.info("services of ended jobs learnt", extra=extra)

    def sync_job(self, reconciled: ReconciledJob, state: ClusterState, now_seconds: float) -> None:
        """Give the scheduler a job, as it is or as it is to be."""
        uid = reconciled.job.uid
        if reconciled.state is None or not self._can_place(reconciled):
            self._forget_job(uid)
            return
        template = self.templates.of(reconciled.job)
        job = scheduler_job(reconciled, state.pods.get(uid, ()), template, now_seconds, elastic=self._elastic)
        if self._jobs.get(uid) != job:
            self._jobs[uid] = job
            self.scheduler.observe(job)
        self._sync_avoided(reconciled, now_seconds)

    def _sync_speed(self, reconciled: ReconciledJob, state: ClusterState) -> None:
        """Give the scheduler the speed of a job that shares its GPUs, if it was measured."""
        job, count = reconciled.job, count_of(reconciled, state)
        template = template_of(job)
        if self.probes is not None:
            self.probes.note(job.uid, count, limited_cpus(reconciled, state), job.status.attempt_workers)
        if count is None or template is None or job.uid not in self._jobs:
            self._speeds.interrupt(job.uid)
            return
        speed = self._speeds.note(job.uid, template, count, profile_now(reconciled, state))
        if speed is not None:
            self.scheduler.report_speed(job.key, speed.ratio, speed.sharers)

    def _gpus_moved(self, state: ClusterState, nodes: Iterable[str]) -> bool:
        """Whether one of these nodes is new, gone, or has other GPUs than before."""
        for name in nodes:
            record, synced = state.gpu_nodes.get(name), self._nodes.get(name)
            if record is None or synced is None or synced.gpus != tuple(gpu.uuid for gpu in record.gpus):
                return True
        return False

    def _can_place(self, reconciled: ReconciledJob) -> bool:
        """Whether nodes report all GPUs that a job holds."""
        return all(gpu in self._node_of for worker in reconciled.holds for gpu in worker.gpus)

    def _is_unplanned(self, reconciled: ReconciledJob) -> bool:
        """Whether a job holds GPUs, but the scheduler cannot have it, as no node reports one of these."""
        return reconciled.state is not None and not self._can_place(reconciled)

    def _locate(self, uid: str, state: ClusterState, cache: JobCache) -> set[str]:
        """Note on which nodes a gang is, or is to be; return these, and those on which it was."""
        now = {place for pod in state.pods.get(uid, ()) for place in (pod.node, *pod.gpus)}
        if uid in cache.jobs:
            now |= {place for each in cache.jobs[uid].holds for place in (each.node, *each.gpus)}
        before = self._places_of.pop(uid, set())
        for place in before - now:
            self._gangs_on[place].discard(uid)
        for place in now:
            self._gangs_on[place].add(uid)
        if now:
            self._places_of[uid] = now
        return {self._node_of.get(place, place) for place in before | now}

    def _sync_nodes(
        self, names: Iterable[str], state: ClusterState, cache: JobCache, now_seconds: float
    ) -> None:
        changed = False
        for name in names:
            record, before = state.gpu_nodes.get(name), self._nodes.get(name)
            self._due.forget(name)
            if record is None:
                changed |= self._nodes.pop(name, None) is not None
                self._sync_releasing(before, {})
                continue
            gangs = self._gangs_on[name].union(*(self._gangs_on[gpu.uuid] for gpu in record.gpus))
            jobs = {uid: cache.jobs[uid] for uid in gangs if uid in cache.jobs}
            unplanned = {uid for uid, job in jobs.items() if self._is_unplanned(job)}
            tenants = node_tenants(name, gangs, state, cache.jobs, unplanned, now_seconds)
            node = scheduler_node(
                record,
                state,
                tenants.foreign,
                self._rules,
                self._active_percent,
                self._levels,
                self._node_of,
                {uid: job for uid, job in jobs.items() if uid not in unplanned},
                tenants.departing,
                resizes=self._resizes,
                kept=self._kept,
            )
            changed |= before is None or before.node != node
            releasing = {job.key: job for job in tenants.departures}
            self._sync_releasing(before, releasing)
            self._nodes[name] = _SyncedNode(node, tuple(gpu.uuid for gpu in record.gpus), releasing)
            self._due.put(name, tenants.until_seconds)
        if changed:
            self.scheduler.set_nodes([each.node for each in self._nodes.values()])

    def _sync_releasing(self, before: _SyncedNode | None, releasing: dict[str, Job]) -> None:
        known = {} if before is None else before.releasing
        for key in known.keys() - releasing.keys():
            self.scheduler.forget(key)
        for key, job in releasing.items():
            if known.get(key) != job:
                self.scheduler.observe(job)

    def _sync_avoided(self, reconciled: ReconciledJob, now_seconds: float) -> None:
        """Keep a waiting job, and one that may be rescaled, away from nodes that its template does not allow, or on which it failed to
        start lately."""
        job, nodes = reconciled.job, frozenset[str]()
        if job.desired is not None and (reconciled.state is JobState.WAITING or job.desired.spec.elastic):
            lately = {each.node for each in transitions.unexpired(job.status.avoid, now_seconds)}
            nodes = self._choice.refused(job.desired.spec.template["spec"]).nodes | lately
        self.scheduler.avoid(job.key, nodes)

    def _forget_job(self, uid: str) -> None:
        self._speeds.forget(uid)
        if self.probes is not None:
            self.probes.forget(uid)
        job = self._jobs.pop(uid, None)
        if job is not None:
            self.scheduler.forget(job.key)
