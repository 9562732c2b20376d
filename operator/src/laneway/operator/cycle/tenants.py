"""Who holds shares of GPUs without being in a placement that the planner sees.

Every share of a GPU that somebody holds counts exactly once: as the placement of a job that the planner knows, as a departure (a
worker that ended, whose node has yet to report it), or as a foreign tenant (a plain pod, a worker whose job is gone, a worker on
another GPU than its placement says).

A node reports who is on its GPUs. What is to be there and is not reported yet follows from the gangs' placements and pods.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from laneway.api.gpu_node import SessionStatus
from laneway.operator.lifecycle.between_attempts import late_seconds
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.state.sessions import Hold
from laneway.scheduling import Demand, ForeignTenant, HostResources, Job, JobState, WorkerPlacement
from laneway.scheduling.model.host_resources import NOTHING

_RELEASE_SECONDS = 10.0
"""After a worker's containers end, the node reports its session until the kubelet frees its device ids. A worker placed there
meanwhile may be refused, or get another GPU, so the ended worker counts as releasing its GPU for this time. It must not count
as a foreign tenant, which may stay forever: a preemptor would then give up the GPUs of its victims. After this time, the ended
worker holds nothing even if its session is still reported; its pod is kept for its logs."""


@dataclass(slots=True)
class NodeTenants:
    """Who is on the GPUs of a node beside the planner's jobs."""

    foreign: defaultdict[str, list[ForeignTenant]] = field(default_factory=lambda: defaultdict(list))
    departures: list[Job] = field(default_factory=list)
    """Sessions that are about to end, each as a job that leaves."""

    departing: set[str] = field(default_factory=set)
    """Uids of the pods whose requests count with a departure: what they release can be waited for."""

    until_seconds: float = math.inf
    """When that changes by itself."""


def node_tenants(
    node: str,
    gangs: Iterable[str],
    state: ClusterState,
    jobs: Mapping[str, ReconciledJob],
    unplanned: Collection[str],
    now_seconds: float,
) -> NodeTenants:
    """Return the tenants of a node that no placement accounts for.

    Args:
        node: its name.
        gangs: uids of the jobs, gone ones too, that have or are to have workers there.
        state: what is known of the cluster.
        jobs: the reconciled jobs, by uid.
        unplanned: uids of those that hold a GPU which no node reports any more. The planner cannot see these jobs, but what
            they hold elsewhere is taken.
        now_seconds: Unix time.
    """
    found = NodeTenants()
    holds = state.sessions.on(node)
    gpus_of_key = Counter(hold.session.key for hold in holds)
    for hold in holds:
        if hold.ended:
            continue
        pod = state.pod_of(hold)
        if pod is None:
            # A worker's session without a pod: the pod is deleted already.
            departs = hold.session.job is not None
        elif pod.job_uid in jobs and jobs[pod.job_uid].covers(pod, hold.gpu.uuid):
            continue
        elif not pod.ended:
            departs = pod.deleting
        else:
            release_seconds = (pod.finished_seconds or 0) + _RELEASE_SECONDS
            if not 0 <= release_seconds - now_seconds <= 2 * _RELEASE_SECONDS:
                continue  # a node's clock may be fast: that must not keep its GPUs
            departs = True
            found.until_seconds = min(found.until_seconds, math.nextafter(release_seconds, math.inf))
        if departs:
            _note_departure(found, hold, None if pod is None or pod.ended else pod, now_seconds)
        else:
            tenant = _tenant(hold.session, gpus_of_key[hold.session.key] > 1)
            found.foreign[hold.gpu.uuid].append(tenant)
    for uid in gangs:
        for gpu, tenant in _unreported(uid, state, jobs.get(uid), uid in unplanned):
            found.foreign[gpu].append(tenant)
    return found


def _unreported(
    uid: str, state: ClusterState, job: ReconciledJob | None, unplanned: bool
) -> Iterator[tuple[str, ForeignTenant]]:
    """Yield, with its GPU, what a gang holds that neither a placement nor a session shows."""
    if job is not None and unplanned:
        for worker in job.holds:
            key = f"{job.job.key}/{worker.worker}"
            for gpu in worker.gpus:
                yield gpu, ForeignTenant(key, worker.share_percent, spans_gpus=True)
    for pod in state.pods.get(uid, ()):
        if pod.ended or state.sessions.of(pod):
            continue
        if job is not None and job.accounts_for(pod):
            continue
        key = f"{pod.namespace}/{pod.name}/{pod.uid}"
        for gpu in pod.gpus:
            yield gpu, ForeignTenant(key, pod.share_percent, spans_gpus=len(pod.gpus) > 1)


def _note_departure(found: NodeTenants, hold: Hold, pod: WorkerPod | None, now_seconds: float) -> None:
    """Add a session that is about to end, and what its pod requests, if that has not ended."""
    requests, is_late = NOTHING, False
    if pod is not None:
        late_from_seconds = late_seconds(pod)
        is_late = late_from_seconds <= now_seconds
        if not is_late:
            found.until_seconds = min(found.until_seconds, late_from_seconds)
        if pod.node == hold.node and pod.uid not in found.departing:
            requests = HostResources.of(pod.requests)
            found.departing.add(pod.uid)
    found.departures.append(_departure(hold, requests, is_late=is_late))


def _departure(hold: Hold, requests: HostResources, *, is_late: bool) -> Job:
    session = hold.session
    placement = WorkerPlacement(0, hold.node, (hold.gpu.uuid,), session.share_percent)
    return Job(
        key=f"{session.namespace}/{session.pod}/{session.key}/{hold.node}/{hold.gpu.index}",
        demand=Demand(share_percent=min(session.share_percent, 100), requests=requests),
        created_seconds=0.0,
        state=JobState.TERMINATING,
        placement=(placement,),
        ends=True,
        leaves_late=is_late,
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
