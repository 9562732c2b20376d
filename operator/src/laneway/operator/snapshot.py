"""From what the cluster says to the frozen picture that ``laneway.scheduling`` plans from.

Every share of a GPU that somebody holds is in the picture exactly once: as the placement of a job that the planner knows, as
a departure (a worker that ended, whose node has yet to report it), or as a foreign tenant (a plain pod, a worker whose job is
gone, a worker on another GPU than its placement says).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from laneway.api import quantity
from laneway.api.clock_text import to_seconds
from laneway.api.enforcement import Enforcement
from laneway.api.gpu_node import GPUStatus, SessionStatus
from laneway.api.training_job import ConditionType, ProfileStatus
from laneway.lanes import LaneRules
from laneway.operator import accounting, transitions
from laneway.operator.cache import ClusterView
from laneway.operator.eligibility import ineligible_nodes, is_constrained
from laneway.operator.progress import expected_seconds
from laneway.operator.records.gpu_node_record import GPUNodeRecord
from laneway.operator.records.job_record import preemptible
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.sessions import Hold, SessionIndex
from laneway.operator.standing import Standing
from laneway.operator.templates import (
    NOTHING_KNOWN,
    KnownTemplate,
    TemplateKey,
    from_node,
    larger,
    template_of,
)
from laneway.scheduling import (
    GPU,
    ClusterSnapshot,
    Demand,
    ForeignTenant,
    Job,
    JobState,
    Node,
    WorkerPlacement,
)
from laneway.scheduling.measured_profile import profile_of

_RELEASE_SECONDS = 10.0
"""Between the end of a worker's containers and the kubelet's giving its ids free lies a moment in which the node still
reports the session. Who is sent there in it may be refused, or get another GPU; so the planner sees the worker leave. As
a stranger, who may stay for ever, it would make a gang give up the GPUs that others have made way for. An ended
worker whose session stays longer holds nothing all the same: its pod is kept for its logs."""

_NO_NODE = "there is no such node in the cluster"


def build_snapshot(
    view: ClusterView,
    standings: Iterable[Standing],
    sessions: SessionIndex,
    rules: LaneRules,
    templates: Mapping[TemplateKey, KnownTemplate],
    now_seconds: float,
    active_percent: int | None = None,
) -> ClusterSnapshot:
    """Return the picture to plan from.

    Args:
        view: what the cluster says.
        standings: what has become of the jobs.
        sessions: of ``view``.
        rules: how a GPU's memory is counted.
        templates: what is known of templates.
        now_seconds: the moment.
        active_percent: of a GPU: what may take turns at the same time; None: all that its node offers.
    """
    known = {gpu.uuid for node in view.gpu_nodes for gpu in node.gpus}
    relevant = [standing for standing in standings if standing.state is not None]
    planned = [each for each in relevant if all(gpu in known for gpu in _gpus(each))]
    # A gang that holds a GPU of a node which does not report it any more cannot be planned with; what it holds elsewhere
    # is taken all the same.
    unplanned = [each for each in relevant if not all(gpu in known for gpu in _gpus(each))]
    covered = _covered(view, relevant)
    holds = [*_uncovered(view, covered, sessions, now_seconds)]
    staying = [hold for hold, departs in holds if not departs]
    foreign = _foreign_tenants(view, unplanned, covered, staying, sessions)
    reported_by = _first_reporters(view.gpu_nodes)
    nodes = tuple(
        _node(record, view, foreign, rules, reported_by, active_percent) for record in view.gpu_nodes
    )
    return ClusterSnapshot(
        nodes=nodes,
        jobs=(
            *(_job(each, view, templates, now_seconds) for each in planned),
            *(_departure(hold) for hold, departs in holds if departs),
        ),
        avoid=_avoid(view, planned, [node.name for node in nodes], now_seconds),
    )


def _gpus(standing: Standing) -> Iterable[str]:
    return (gpu for worker in standing.holds for gpu in worker.gpus)


def _counted_profile(standing: Standing, view: ClusterView, template: KnownTemplate) -> ProfileStatus | None:
    """Return what the node counts a job's workers with, or will: what was measured, and what was known when they were made."""
    job = standing.job
    pods = [pod for pod in view.pods.get(job.uid, ()) if pod.attempt == job.status.attempt]
    if job.placed and pods:
        written = next((pod.profile for pod in pods), None)
        known = None if written is None else from_node(written)
    else:
        known = template.profile
    own = job.status.profile
    if own is None or known is None:
        return own or known
    return larger(own, known)


def _job(
    standing: Standing, view: ClusterView, templates: Mapping[TemplateKey, KnownTemplate], now_seconds: float
) -> Job:
    job, wish, state = standing.job, standing.job.wish, standing.state
    key = template_of(job)
    template = NOTHING_KNOWN if key is None else templates.get(key, NOTHING_KNOWN)
    counted = _counted_profile(standing, view, template)
    assert wish is not None
    assert state is not None
    status = accounting.counted(job.status, now_seconds)
    waiting = status.waiting
    running = state is JobState.RUNNING
    return Job(
        key=job.key,
        demand=wish.demand,
        created_seconds=job.created_seconds,
        uid=job.uid,
        state=state,
        placement=standing.holds,
        priority=standing.priority,
        attained_service_gpu_seconds=accounting.attained_gpu_seconds(status),
        executed_seconds=accounting.executed_seconds(status),
        waiting_since_seconds=to_seconds(waiting.since) if waiting and waiting.since else None,
        started_seconds=transitions.since_seconds(status, ConditionType.RUNNING, now_seconds)
        if running
        else None,
        service_at_promotion_gpu_seconds=float(quantity.parse(status.service_at_promotion)),
        expected_seconds=expected_seconds(status, now_seconds, template.expected_seconds),
        profile=None if counted is None else profile_of(counted),
        preemptible=preemptible(wish.spec),
        parkable=standing.parkable,
        suspended=wish.spec.suspend,
    )


def _first_reporters(nodes: Iterable[GPUNodeRecord]) -> dict[str, str]:
    """Return the node of each GPU; where two claim one, the first by name has it."""
    reported_by: dict[str, str] = {}
    for node in sorted(nodes, key=lambda each: each.name):
        for gpu in node.gpus:
            reported_by.setdefault(gpu.uuid, node.name)
    return reported_by


def _node(
    record: GPUNodeRecord,
    view: ClusterView,
    foreign: Mapping[str, list[ForeignTenant]],
    rules: LaneRules,
    reported_by: Mapping[str, str],
    active_percent: int | None,
) -> Node:
    disputed = [gpu.uuid for gpu in record.gpus if reported_by[gpu.uuid] != record.name]
    refusal = (
        f"it claims {disputed[0]}, a GPU of {reported_by[disputed[0]]}"
        if disputed
        else _refusal(record, view)
    )
    return Node(
        name=record.name,
        gpus=tuple(
            _gpu(gpu, record.name, foreign, rules, active_percent)
            for gpu in record.gpus
            if gpu.uuid not in disputed
        ),
        schedulable=not refusal,
        reason=refusal,
    )


def _refusal(record: GPUNodeRecord, view: ClusterView) -> str:
    """Return why no new worker goes to the node, as a clause; empty where one may."""
    node = view.nodes.get(record.name)
    if node is None:
        return _NO_NODE
    if record.name in view.silent_nodes:
        return "its node agent has not written for a while"
    return node.refusal or record.refusal


def _gpu(
    gpu: GPUStatus,
    node: str,
    foreign: Mapping[str, list[ForeignTenant]],
    rules: LaneRules,
    active_percent: int | None,
) -> GPU:
    return GPU(
        uuid=gpu.uuid,
        node=node,
        index=gpu.index,
        model=gpu.model,
        memory_bytes=gpu.memory_bytes,
        allocatable_bytes=gpu.allocatable_bytes,
        allocatable_percent=gpu.allocatable_percent,
        active_percent=None if active_percent is None else min(active_percent, gpu.allocatable_percent),
        healthy=gpu.healthy,
        enforcement=Enforcement(gpu.enforcement),
        numa_node=gpu.numa_node,
        nvlink_peers=frozenset(gpu.nvlink_peers),
        foreign=tuple(sorted(foreign.get(gpu.uuid, ()), key=lambda tenant: tenant.key)),
        lane_rules=rules,
    )


def _foreign_tenants(
    view: ClusterView,
    unplanned: Iterable[Standing],
    covered: set[tuple[str, str]],
    holds: Iterable[Hold],
    sessions: SessionIndex,
) -> dict[str, list[ForeignTenant]]:
    """Return, by GPU, who holds some of it without being in a placement that the planner sees, and stays."""
    foreign: dict[str, list[ForeignTenant]] = {}
    for standing in unplanned:
        for worker in standing.holds:
            for gpu in worker.gpus:
                tenant = ForeignTenant(
                    f"{standing.job.key}/{worker.worker}", worker.share_percent, spans_gpus=True
                )
                foreign.setdefault(gpu, []).append(tenant)
    gpus_of_key = Counter((hold.node, hold.session.key) for hold in sessions.holds)
    for hold in holds:
        spans_gpus = gpus_of_key[hold.node, hold.session.key] > 1
        foreign.setdefault(hold.gpu.uuid, []).append(_tenant(hold.session, spans_gpus))
    uids = _uids(view)
    reported = {uid for uid, _ in covered} | {_uid_of(hold.session, uids) for hold in sessions.holds}
    for gang in view.pods.values():
        for pod in gang:  # whose session has not shown up yet
            if not pod.ended and pod.uid not in reported:
                for gpu in pod.gpus:
                    foreign.setdefault(gpu, []).append(_unreported(pod))
    return foreign


def _uncovered(
    view: ClusterView, covered: set[tuple[str, str]], sessions: SessionIndex, now_seconds: float
) -> Iterator[tuple[Hold, bool]]:
    """Yield the sessions that no placement stands for, and whether each is about to end."""
    pods = {pod.uid: pod for gang in view.pods.values() for pod in gang}
    uids = _uids(view)
    for hold in sessions.holds:
        uid = _uid_of(hold.session, uids)
        if hold.ended or (uid, hold.gpu.uuid) in covered:
            continue
        pod = pods.get(uid)
        if pod is None:
            # A worker's session without a pod: the pod is deleted already.
            yield hold, hold.session.job is not None
        elif not pod.ended:
            yield hold, pod.deleting
        elif now_seconds - (pod.finished_seconds or 0) <= _RELEASE_SECONDS:
            yield hold, True


def _uids(view: ClusterView) -> dict[tuple[str, str], str]:
    return {(pod.namespace, pod.name): pod.uid for gang in view.pods.values() for pod in gang}


def _uid_of(session: SessionStatus, uids: Mapping[tuple[str, str], str]) -> str:
    return session.pod_uid or uids.get((session.namespace, session.pod), "")


def _departure(hold: Hold) -> Job:
    """Return a session that is about to end as a job that leaves."""
    session = hold.session
    placement = WorkerPlacement(0, hold.node, (hold.gpu.uuid,), session.share_percent)
    return Job(
        key=f"{session.namespace}/{session.pod}/{session.key}/{hold.gpu.index}",
        demand=Demand(share_percent=min(session.share_percent, 100)),
        created_seconds=0.0,
        state=JobState.LEAVING,
        placement=(placement,),
    )


def _covered(view: ClusterView, standings: Iterable[Standing]) -> set[tuple[str, str]]:
    """Return the (pod uid, GPU) pairs that the standings' placements stand for."""
    covered: set[tuple[str, str]] = set()
    for standing in standings:
        gpus = {worker.worker: worker.gpus for worker in standing.holds}
        for pod in view.pods.get(standing.job.uid, ()):
            if pod.uid in standing.accounted:
                covered.update((pod.uid, gpu) for gpu in gpus.get(pod.rank, ()))
    return covered


def _tenant(session: SessionStatus, spans_gpus: bool) -> ForeignTenant:
    return ForeignTenant(
        key=f"{session.namespace}/{session.pod}/{session.key}",
        share_percent=session.share_percent,
        persistent_bytes=session.persistent_bytes,
        ephemeral_bytes=session.ephemeral_bytes,
        profiled=session.profiled,
        spans_gpus=spans_gpus,
    )


def _unreported(pod: WorkerPod) -> ForeignTenant:
    return ForeignTenant(
        key=f"{pod.namespace}/{pod.name}/{pod.uid}",
        share_percent=pod.share_percent,
        spans_gpus=len(pod.gpus) > 1,
    )


def _avoid(
    view: ClusterView, standings: Iterable[Standing], nodes: list[str], now_seconds: float
) -> Mapping[str, frozenset[str]]:
    """Return, by waiting job, the nodes that its template does not allow, or on which it failed to start lately."""
    tainted = [node for node in view.nodes.values() if node.taints]
    candidates = [view.nodes[name] for name in nodes if name in view.nodes]
    avoid: dict[str, frozenset[str]] = {}
    for standing in standings:
        if standing.state is not JobState.WAITING:
            continue
        wish = standing.job.wish
        assert wish is not None
        pod_spec = wish.spec.template["spec"]
        refused = ineligible_nodes(pod_spec, candidates if is_constrained(pod_spec) else tainted)
        lately = {each.node for each in transitions.unexpired(standing.job.status.avoid, now_seconds)}
        if refused or lately:
            avoid[standing.job.key] = refused | lately
    return MappingProxyType(avoid)
