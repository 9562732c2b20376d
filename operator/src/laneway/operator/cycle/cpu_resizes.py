"""What the allocation policy's decision demands: changes of running pods' CPUs, in an order in which no node gives more than it has.

A worker that gives CPUs back is changed at once. One that gets more waits until its node has them: until the kubelet reports that the
others have given them back, and no worker that starts there needs them. A gang grows on all of its nodes or on none. A worker that
starts is created at once where the node has its CPUs, and otherwise as soon as the others there have given theirs back.

Only the CPUs of the trainer container are changed. A container that got more memory could not give it back without a restart, and
would keep other jobs off its node.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from laneway.api.job_conditions import ConditionType
from laneway.api.job_names import JobSentence
from laneway.operator.cycle.job_cache import JobCache
from laneway.operator.cycle.scheduler_jobs import cpu_points
from laneway.operator.cycle.scheduler_nodes import KeptCPUs
from laneway.operator.cycle.scheduler_sync import SchedulerSync
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.reconciled_job import JobEvent, ReconciledJob
from laneway.operator.pacing import CPUS_AWAITED_SECONDS, DIVIDED_AGAIN_SECONDS
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.host_resources import available
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.trainer_cpus import RequestedCPUs, TrainerCPUs
from laneway.operator.state.records.waiting_pod import WaitingPod
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import Decision, JobState, WorkerPlacement
from laneway.scheduling.model.host_resources import CPU
from laneway.scheduling.model.plan import WorkerAllotment

_STEP_MILLIS = 100
"""CPUs beyond the request are given in steps of this: less is not noticed, and each change is a write."""

_UNBOUNDED = (0.0, math.inf)

Allotments = Mapping[str, tuple[WorkerAllotment, ...]]


@dataclass(frozen=True, slots=True)
class ResizeWrite:
    """The CPUs that a worker's trainer container is to have, in thousandths."""

    job: JobRecord
    pod: WorkerPod
    container: str
    cpu_millis: int
    limit_millis: int | None
    """None: it has no limit."""

    event: JobEvent | None = None
    """What the job's user is told beside it."""


@dataclass(frozen=True, slots=True)
class _Change:
    """One pod, and what its trainer is to request."""

    pod: WorkerPod
    cpus: TrainerCPUs
    requested_millis: int
    """By the job's template."""

    wanted_millis: int
    event: JobEvent | None = None

    @property
    def lent_millis(self) -> int:
        """What it has beyond what it requests."""
        return max(0, self.cpus.held_millis - self.requested_millis)

    @property
    def gives_millis(self) -> int:
        """What the node will have back."""
        return max(0, self.cpus.held_millis - self.wanted_millis)

    @property
    def needs_millis(self) -> int:
        """What the node has to have for it."""
        return max(0, self.wanted_millis - self.cpus.held_millis)


@dataclass(slots=True)
class _Nodes:
    """What the nodes have, while changes are planned."""

    state: ClusterState
    resizing: Mapping[str, int]
    """See :attr:`WriteHistory.resizing`."""

    free: dict[str, float] = field(default_factory=dict)
    """CPUs by node that nobody holds, in thousandths; infinite where nothing is known."""

    coming: dict[str, dict[str, int]] = field(default_factory=dict)
    """CPUs that workers are giving back, by node and by key of the job."""

    short: set[str] = field(default_factory=set)
    """Nodes that lack CPUs for workers that start there, or for other pods."""

    kept: dict[str, int] = field(default_factory=dict)
    """CPUs by node that stay free for other pods, which wait for them."""

    def free_on(self, node: str) -> float:
        """Return what nobody holds of a node's CPUs."""
        if node not in self.free:
            offered = available(self.state, node)
            held = sum(_held(pod, self.resizing) for pod in self.state.pods_on.get(node, {}).values())
            self.free[node] = math.inf if offered is None else offered.get(CPU, 0) - held
        return self.free[node]

    def take(self, node: str, millis: int) -> None:
        """Give some of it away."""
        self.free[node] = self.free_on(node) - millis


class CPUResizes:
    """The changes of pods' CPUs, cycle by cycle."""

    def __init__(self, *, divides: bool) -> None:
        """Start without memory.

        Args:
            divides: whether there is an allocation policy. Without one, workers get back what they request, and no more is done.
        """
        self._divides = divides
        self._idle = False
        """Whether nothing is divided, and nothing that was divided before is left."""

        self.held_back: dict[str, JobSentence] = {}
        """By uid of a job that starts, and whose pods are not created yet: which CPUs are being given back for it, as a sentence."""

        self.lends = False
        """Whether workers have more CPUs than they request, or other pods wait for them."""

        self._allotments: Allotments = {}
        self._divided_seconds = -math.inf
        self._bounds: dict[str, tuple[float, float]] = {}
        """By uid of a pod: the CPUs between which its kubelet has not refused it any; in thousandths."""

        self._due_seconds = math.inf

    def due_seconds(self) -> float:
        """Return when CPUs are to be divided again though nothing changes; infinite: they are not."""
        return self._due_seconds

    def kept(self, history: WriteHistory) -> KeptCPUs:
        """Return the CPUs that workers cannot be made to give back.

        Args:
            history: what came of earlier changes.
        """
        lows = [
            (uid, low) for each in (self._bounds, history.resize_bounds) for uid, (low, _) in each.items()
        ]
        return KeptCPUs(bool(history.resizes_unavailable), {uid: low for uid, low in sorted(lows) if low})

    def plan(
        self,
        state: ClusterState,
        jobs: JobCache,
        sync: SchedulerSync,
        decision: Decision,
        history: WriteHistory,
        in_flight: Collection[str],
        now_seconds: float,
    ) -> tuple[ResizeWrite, ...]:
        """Return the pods whose CPUs are to be changed now, and note whose pods are held back.

        Args:
            state: what is known of the cluster.
            jobs: the reconciled jobs.
            sync: the scheduler, and what is measured of jobs.
            decision: the scheduler's last decision.
            history: what came of earlier changes.
            in_flight: uids of jobs with writes in flight: they are left alone.
            now_seconds: Unix time.
        """
        if self._idle or history.resizes_unavailable:
            self.held_back = {}
            return ()
        again_seconds = self._divided_seconds + DIVIDED_AGAIN_SECONDS
        if (
            not decision.starts
            and not decision.resumes
            and not self.held_back
            and now_seconds < again_seconds
        ):
            self._due_seconds = again_seconds
            return ()
        if not self._divides and not any(_lacks_or_has_more(jobs, state)):
            self._idle, self.lends, self.held_back = True, False, {}
            return ()
        self._allotments = sync.scheduler.allotments(decision)
        self._divided_seconds, self._due_seconds = now_seconds, math.inf
        if self._bounds:
            self._bounds = {uid: each for uid, each in self._bounds.items() if uid in state.pod_by_uid}
        this = _Nodes(state, history.resizing)
        gangs = [
            (job, changes)
            for uid in sorted(state.pods)
            if (job := jobs.jobs.get(uid)) is not None
            and job.job.key not in decision.preemptions
            and (changes := self._changes(job, state, history))
        ]
        for job, changes in gangs:
            for change in changes:
                if change.gives_millis:
                    of_node = this.coming.setdefault(change.pod.node, {})
                    of_node[job.job.key] = of_node.get(job.job.key, 0) + change.gives_millis
        self._hold_back(this, jobs, decision, now_seconds)
        lent = _lent(changes for _, changes in gangs)
        self.lends = bool(lent or history.waiting_pods)
        _keep_for_others(this, lent, history.waiting_pods, sync)
        writes: list[ResizeWrite] = []
        for job, allotted in gangs:
            changes = _given_back(this, self._tried(this, job, allotted, sync, history, now_seconds))
            due = [each for each in changes if each.wanted_millis != each.cpus.request_millis]
            shrinks = [each for each in due if each.wanted_millis < each.cpus.request_millis]
            grows = [each for each in due if each.wanted_millis > each.cpus.request_millis]
            if job.job.uid in in_flight:
                continue
            writes += _writes(job, shrinks, history)
            if grows and _grow(this, changes):
                writes += _writes(job, grows, history)
        return tuple(writes)

    def _changes(self, job: ReconciledJob, state: ClusterState, history: WriteHistory) -> list[_Change]:
        """Return what the trainers of a job are to have, changed or not; nothing while one of its pods starts or is deleted."""
        desired = job.job.desired
        mine = [pod for pod in state.pods[job.job.uid] if pod.attempt == job.job.status.attempt]
        if (
            desired is None
            or desired.cpus is None
            or job.state in (None, JobState.STARTING, JobState.TERMINATING)
        ):
            return []
        if not all(pod.started and not pod.deleting and (pod.ended or pod.cpus is not None) for pod in mine):
            return []
        allotted = {each.worker: each.cpu_millis for each in self._allotments.get(job.job.key, ())}
        bounds = [history.resize_bounds.get(pod.uid, _UNBOUNDED) for pod in mine]
        # A gang is as fast as its slowest worker: where one may not have more than it requests, the others need no more.
        most_millis = max(min((high for _, high in bounds), default=math.inf), desired.cpus.request_millis)
        return [
            self._change(
                pod,
                replace(pod.cpus, held_millis=max(pod.cpus.held_millis, history.resizing.get(pod.uid, 0))),
                desired.cpus,
                allotted.get(pod.rank),
                (low, min(high, most_millis)),
            )
            for pod, (low, high) in zip(mine, bounds, strict=True)
            if pod.cpus is not None and not pod.ended and (self._divides or pod.cpus.resized)
        ]

    def _change(
        self,
        pod: WorkerPod,
        cpus: TrainerCPUs,
        asks: RequestedCPUs,
        allotted_millis: int | None,
        bounds: tuple[float, float],
    ) -> _Change:
        """Return what a trainer is to have: its request where the policy does not know the job. What its kubelet refuses is taken back,
        and not wanted again in this attempt; nor is what the API server refuses, which are the bounds."""
        wanted, event = asks.request_millis, None
        if allotted_millis is not None:
            wanted = _trainers_part(allotted_millis, asks)
        if cpus.infeasible:
            low, high = self._bounds.get(pod.uid, _UNBOUNDED)
            given = cpus.allocated_millis
            self._bounds[pod.uid] = (low, given) if cpus.request_millis > given else (given, high)
            event = JobEvent(
                "CPUsNotChanged",
                f"Worker {pod.rank} keeps its CPUs: the kubelet of {pod.node} refused to change them: {cpus.infeasible}",
                warning=True,
            )
        for low, high in (self._bounds.get(pod.uid, _UNBOUNDED), bounds):
            wanted = int(max(low, min(wanted, high)))
        return _Change(pod, cpus, asks.request_millis, wanted, event)

    def _tried(
        self,
        this: _Nodes,
        job: ReconciledJob,
        changes: list[_Change],
        sync: SchedulerSync,
        history: WriteHistory,
        now_seconds: float,
    ) -> list[_Change]:
        """Return what the trainers of a job are to have while its speed is measured with other CPUs; as they are where it is not."""
        probes, desired, uid = sync.probes, job.job.desired, job.job.uid
        if probes is None or desired is None or desired.cpus is None:
            return changes
        bound = any(each.pod.uid in self._bounds or each.pod.uid in history.resize_bounds for each in changes)
        if bound or not probes.counts(uid) or any(each.pod.node in this.short for each in changes):
            probes.drop(uid)
            return changes
        idle = min(
            each.cpus.held_millis + this.free_on(each.pod.node) - this.kept.get(each.pod.node, 0)
            for each in changes
        )
        allotted = max(each.wanted_millis for each in changes)
        most = allotted if math.isinf(idle) else max(allotted, int(idle) // _STEP_MILLIS * _STEP_MILLIS)
        known = cpu_points(job.job, sync.templates.of(job.job))
        target = probes.target(job, desired.cpus, known, most, now_seconds)
        return changes if target is None else [replace(each, wanted_millis=target) for each in changes]

    def _hold_back(self, this: _Nodes, jobs: JobCache, decision: Decision, now_seconds: float) -> None:
        """Give workers that start their CPUs before others grow, and hold those back for a while whose CPUs are still to be given back."""
        self.held_back = {}
        for job, missing in _starting(jobs, this.state, decision):
            desired = job.job.desired
            request = 0 if desired is None else desired.demand.requests.of_resource(CPU)
            waits = job.job.key in decision.starts or now_seconds < _awaits_until_seconds(job, now_seconds)
            for each in missing:
                if this.free_on(each.node) < request:
                    this.short.add(each.node)
                    if waits and (coming := this.coming.get(each.node)):
                        self.held_back.setdefault(job.job.uid, _awaited(each.node, coming))
                this.take(each.node, request)


def _awaited(node: str, coming: Mapping[str, int]) -> JobSentence:
    """Return what a job waits for whose node is getting CPUs back."""
    before = f"Waiting for {node} to take back {sum(coming.values()) / 1000:g} CPUs that "
    after = f" {'were' if len(coming) > 1 else 'was'} lent."
    return JobSentence(before, tuple(sorted(coming)), after)


def _lacks_or_has_more(jobs: JobCache, state: ClusterState) -> Iterator[bool]:
    """Yield, of each worker whose CPUs the operator has changed, whether it has others than its job requests."""
    for uid, pods in state.pods.items():
        job = jobs.jobs.get(uid)
        asks = None if job is None or job.job.desired is None else job.job.desired.cpus
        for pod in pods if asks is not None else ():
            if asks is not None and pod.cpus is not None and pod.cpus.resized and not pod.ended:
                yield not pod.cpus.settled or pod.cpus.request_millis != asks.request_millis


def _awaits_until_seconds(job: ReconciledJob, now_seconds: float) -> float:
    """Return until when the pods of a job that starts wait for CPUs that others are to give back."""
    status = job.job.status
    return transitions.since_seconds(status, ConditionType.PLACED, now_seconds) + CPUS_AWAITED_SECONDS


def _lent(gangs: Iterable[list[_Change]]) -> dict[str, int]:
    """Return, by node, the CPUs that workers have beyond what they request; no node without any."""
    found: dict[str, int] = {}
    for changes in gangs:
        for each in changes:
            if each.lent_millis:
                found[each.pod.node] = found.get(each.pod.node, 0) + each.lent_millis
    return found


def _keep_for_others(
    this: _Nodes, lent: Mapping[str, int], waiting: Iterable[WaitingPod], sync: SchedulerSync
) -> None:
    """Note how many CPUs of each node stay free for the largest waiting pod that may go there and fits in without what is lent."""
    choices = [(pod.cpu_millis, sync.keeps_off(pod)) for pod in waiting]
    for node in this.state.pods_on if choices else ():
        record = this.state.nodes.get(node)
        if record is None or record.refusal:
            continue
        there = this.free_on(node) + lent.get(node, 0)
        if fitting := [millis for millis, refused in choices if millis <= there and node not in refused]:
            this.kept[node] = max(fitting)
            if this.free_on(node) < this.kept[node]:
                this.short.add(node)


def _given_back(this: _Nodes, changes: list[_Change]) -> list[_Change]:
    """Return what trainers are to have where other pods wait for what was lent to them."""
    return [
        replace(each, wanted_millis=min(each.wanted_millis, each.requested_millis))
        if each.pod.node in this.kept and this.free_on(each.pod.node) < this.kept[each.pod.node]
        else each
        for each in changes
    ]


def _starting(
    jobs: JobCache, state: ClusterState, decision: Decision
) -> Iterator[tuple[ReconciledJob, list[WorkerPlacement]]]:
    """Yield the jobs that start, each with its workers that have no pod yet."""
    for key in sorted(decision.starts):
        if (uid := state.job_uids.get(key)) in jobs.jobs:
            yield jobs.jobs[uid], list(decision.starts[key])
    for uid in sorted(jobs.starting):
        job = jobs.jobs[uid]
        there = {pod.rank for pod in state.pods.get(uid, ()) if pod.attempt == job.job.status.attempt}
        yield job, [each for each in job.holds if each.worker not in there]


def _trainers_part(allotted_millis: int, asks: RequestedCPUs) -> int:
    """Return what of a worker's CPUs its trainer gets: exactly what it requests or less, and beyond that whole steps."""
    trainer = allotted_millis - asks.beside_millis
    if trainer <= asks.request_millis:
        return max(trainer, asks.fewest_millis)
    return max(trainer // _STEP_MILLIS * _STEP_MILLIS, asks.request_millis)


def _held(pod: WorkerPod, resizing: Mapping[str, int]) -> int:
    """Return what a pod holds of its node's CPUs, as kube-scheduler counts it, or will count it if a change in flight was made."""
    if pod.cpus is None:
        return pod.requests.get(CPU, 0)
    most = max(pod.cpus.held_millis, resizing.get(pod.uid, 0))
    return pod.requests.get(CPU, 0) + most - pod.cpus.request_millis


def _grow(this: _Nodes, changes: Iterable[_Change]) -> bool:
    """Take what a gang needs to grow, if each of its nodes has it; return whether it was taken."""
    needs: dict[str, int] = {}
    for each in changes:
        gpu_node = this.state.gpu_nodes.get(each.pod.node)
        if each.needs_millis and (gpu_node is None or gpu_node.other_pods is None):
            return False  # it is not known what the other pods there request
        needs[each.pod.node] = needs.get(each.pod.node, 0) + each.needs_millis
    if any(this.free_on(node) < millis + this.kept.get(node, 0) for node, millis in needs.items() if millis):
        return False
    for node, millis in needs.items():
        this.take(node, millis)
    return True


def _writes(job: ReconciledJob, changes: Iterable[_Change], history: WriteHistory) -> Iterator[ResizeWrite]:
    desired = job.job.desired
    assert desired is not None
    assert desired.cpus is not None
    for each in changes:
        if each.pod.uid not in history.resizing:
            limit = desired.cpus.limit_with(each.wanted_millis)
            yield ResizeWrite(job.job, each.pod, each.cpus.container, each.wanted_millis, limit, each.event)
