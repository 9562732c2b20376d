"""Who holds shares of GPUs without being in a placement that the planner sees.

Every share of a GPU that somebody holds counts exactly once: as the placement of a job that the planner knows, as a departure (a
worker that ended, whose node has yet to report it), or as a foreign tenant (a plain pod, a worker whose job is gone, a worker on
another GPU than its placement says).

A gang's own pods and placement make its :class:`Footprint`; with those of all gangs, and what its node reports, the tenants of a node's
GPUs are known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from laneway.api.gpu_node import SessionStatus
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.state.sessions import Hold, SessionIndex
from laneway.scheduling import Demand, ForeignTenant, Job, JobState, WorkerPlacement

_RELEASE_SECONDS = 10.0
"""After a worker's containers end, the node reports its session until the kubelet frees its device ids. A worker placed there
meanwhile may be refused, or get another GPU, so the ended worker counts as releasing its GPU for this time. It must not count
as a foreign tenant, which may stay forever: a preemptor would then give up the GPUs of its victims. After this time, the ended
worker holds nothing even if its session is still reported; its pod is kept for its logs."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Where a gang is on GPUs."""

    covered: frozenset[tuple[str, str]] = frozenset()
    """Uids of pods, and the GPUs on which its placement stands for them."""

    foreign_tenants: tuple[tuple[str, ForeignTenant], ...] = ()
    """By GPU: what it holds there that the planner sees in no placement."""


NOWHERE = Footprint()


def footprint(
    reconciled: ReconciledJob | None, pods: tuple[WorkerPod, ...], planned: bool, sessions: SessionIndex
) -> Footprint:
    """Return where a gang is.

    Args:
        reconciled: where its job stands; None: it has no job any more.
        pods: all that carry its uid.
        planned: whether the planner sees its job.
        sessions: what the nodes report.
    """
    covered: set[tuple[str, str]] = set()
    foreign_tenants: list[tuple[str, ForeignTenant]] = []
    if reconciled is not None and reconciled.state is not None:
        gpus = {worker.worker: worker.gpus for worker in reconciled.holds}
        for pod in pods:
            if pod.uid in reconciled.accounted:
                covered.update((pod.uid, gpu) for gpu in gpus.get(pod.rank, ()))
        if not planned:
            # It holds a GPU of a node that does not report it any more, so it cannot be planned with; what it holds elsewhere
            # is taken all the same.
            foreign_tenants += [
                (
                    gpu,
                    ForeignTenant(
                        f"{reconciled.job.key}/{worker.worker}", worker.share_percent, spans_gpus=True
                    ),
                )
                for worker in reconciled.holds
                for gpu in worker.gpus
            ]
    seen = {uid for uid, _ in covered}
    for pod in pods:
        if not pod.ended and pod.uid not in seen and not sessions.of(pod):
            foreign_tenants += [(gpu, _unreported(pod)) for gpu in pod.gpus]
    return Footprint(frozenset(covered), tuple(foreign_tenants))


@dataclass(slots=True)
class NodeTenants:
    """Who is on the GPUs of a node beside the planner's jobs."""

    foreign: dict[str, list[ForeignTenant]] = field(default_factory=dict)
    departures: list[Job] = field(default_factory=list)
    """Sessions that are about to end, each as a job that leaves."""

    until_seconds: float = math.inf
    """When that changes by itself."""


def node_tenants(
    holds: tuple[Hold, ...],
    pod_of: Callable[[SessionStatus], WorkerPod | None],
    covers: Callable[[WorkerPod, str], bool],
    now_seconds: float,
) -> NodeTenants:
    """Return the tenants that a node reports and that no placement accounts for.

    Args:
        holds: its sessions.
        pod_of: a session's worker; None: there is no pod, or it is a plain one.
        covers: whether the placement of a worker's gang stands for it on a GPU.
        now_seconds: Unix time.
    """
    found = NodeTenants()
    gpus_of_key = Counter(hold.session.key for hold in holds)
    for hold in holds:
        if hold.ended:
            continue
        pod = pod_of(hold.session)
        if pod is None:
            # A worker's session without a pod: the pod is deleted already.
            departs = hold.session.job is not None
        elif covers(pod, hold.gpu.uuid):
            continue
        elif not pod.ended:
            departs = pod.deleting
        else:
            release_seconds = (pod.finished_seconds or 0) + _RELEASE_SECONDS
            if now_seconds > release_seconds:
                continue
            departs = True
            found.until_seconds = min(found.until_seconds, math.nextafter(release_seconds, math.inf))
        if departs:
            found.departures.append(_departure(hold))
        else:
            tenant = _tenant(hold.session, gpus_of_key[hold.session.key] > 1)
            found.foreign.setdefault(hold.gpu.uuid, []).append(tenant)
    return found


def _departure(hold: Hold) -> Job:
    session = hold.session
    placement = WorkerPlacement(0, hold.node, (hold.gpu.uuid,), session.share_percent)
    return Job(
        key=f"{session.namespace}/{session.pod}/{session.key}/{hold.gpu.index}",
        demand=Demand(share_percent=min(session.share_percent, 100)),
        created_seconds=0.0,
        state=JobState.TERMINATING,
        placement=(placement,),
    )


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
