"""Nodes as the planner sees them: what their agents say, whether new workers may go there, and who else is on their GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from laneway.api.enforcement import Enforcement
from laneway.api.gpu_node import GPUStatus, moved_seconds_per_gib
from laneway.lanes import LaneRules
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.host_resources import available
from laneway.operator.state.records.gpu_node_record import GPUNodeRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import GPU, ForeignTenant, HostResources, Node
from laneway.scheduling.model.host_resources import CPU
from laneway.scheduling.model.topology_levels import Domain, domains_of


@dataclass(frozen=True, slots=True)
class KeptCPUs:
    """The CPUs that workers cannot be made to give back."""

    all: bool = False
    """Whether none gives any back."""

    fewest_millis: Mapping[str, float] = field(default_factory=dict)
    """By uid of a pod: what its trainer keeps at least, in thousandths. Others go down to what they request."""

    def of(self, pod: WorkerPod) -> float:
        """Return what the trainer of a pod keeps at least of what it has; infinite: all."""
        return math.inf if self.all else self.fewest_millis.get(pod.uid, 0)


NOTHING_KEPT = KeptCPUs()


def first_reporters(nodes: Iterable[GPUNodeRecord]) -> dict[str, str]:
    """Return the node of each GPU; where two claim one, the first by name has it."""
    reported_by: dict[str, str] = {}
    for node in sorted(nodes, key=lambda each: each.name):
        for gpu in node.gpus:
            reported_by.setdefault(gpu.uuid, node.name)
    return reported_by


def scheduler_node(
    record: GPUNodeRecord,
    state: ClusterState,
    foreign: Mapping[str, Iterable[ForeignTenant]],
    rules: LaneRules,
    active_percent: Callable[[int], int],
    levels: Sequence[str],
    reported_by: Mapping[str, str],
    jobs: Mapping[str, ReconciledJob],
    departing: Collection[str] = (),
    *,
    resizes: bool = False,
    kept: KeptCPUs = NOTHING_KEPT,
) -> Node:
    """Return a node as the planner sees it.

    Args:
        record: what its agent says.
        state: what is known of the cluster.
        foreign: by GPU, who holds some of it beside the planner's jobs.
        rules: how memory is counted.
        active_percent: returns the percent of a GPU whose holders take turns at the same time, by what its node offers.
        levels: labels of racks and zones, from the widest level to the narrowest.
        reported_by: by GPU, the node that has it.
        jobs: by uid: the jobs that the planner has, as they were reconciled.
        departing: uids of pods whose requests the planner counts with their departure.
        resizes: whether CPUs are divided. Then what workers have beyond their requests can be had back; else what they were lent.
        kept: what cannot.
    """
    disputed = [gpu.uuid for gpu in record.gpus if reported_by[gpu.uuid] != record.name]
    refusal = (
        f"it claims {disputed[0]}, a GPU of {reported_by[disputed[0]]}"
        if disputed
        else _refusal(record, state)
    )
    return Node(
        name=record.name,
        gpus=tuple(
            _gpu(gpu, record.name, foreign.get(gpu.uuid, ()), rules, active_percent)
            for gpu in record.gpus
            if gpu.uuid not in disputed
        ),
        schedulable=not refusal,
        reason=refusal,
        domains=_domains(record.name, state, levels),
        host=_host(record.name, state, jobs, departing, kept, resizes=resizes),
        host_capacity=_host_capacity(record.name, state),
    )


def _host(
    node: str,
    state: ClusterState,
    jobs: Mapping[str, ReconciledJob],
    departing: Collection[str],
    kept: KeptCPUs,
    *,
    resizes: bool,
) -> HostResources | None:
    """Return what a node has for the planner's jobs.

    A worker that the planner does not count where it is counts here; so does what a pod requests beyond its job's template,
    such as an injected sidecar.
    """
    left = available(state, node)
    if left is None:
        return None
    left = dict(left)
    for pod in state.pods_on.get(node, {}).values():
        if pod.uid in departing:
            continue
        job = jobs.get(pod.job_uid)
        counted = job is not None and any((each.worker, each.node) == (pod.rank, node) for each in job.holds)
        demand = (
            job.job.desired.demand if counted and job is not None and job.job.desired is not None else None
        )
        requests = dict(pod.requests)
        desired = None if job is None else job.job.desired
        if (
            desired is not None
            and desired.cpus is not None
            and pod.cpus is not None
            and (resizes or pod.cpus.resized)
        ):
            stays = max(desired.cpus.request_millis, min(pod.cpus.held_millis, kept.of(pod)))
            requests[CPU] += int(stays) - pod.cpus.request_millis
        for name, amount in requests.items():
            known = 0 if demand is None else demand.requests.of_resource(name)
            left[name] = left.get(name, 0) - max(0, amount - known)
    return HostResources.of(left)


def _host_capacity(node: str, state: ClusterState) -> HostResources | None:
    record = state.nodes.get(node)
    return None if record is None or record.allocatable is None else HostResources.of(record.allocatable)


def _domains(node: str, state: ClusterState, levels: Sequence[str]) -> tuple[Domain, ...]:
    record = state.nodes.get(node)
    return () if record is None else domains_of(record.labels, levels)


def _refusal(record: GPUNodeRecord, state: ClusterState) -> str:
    """Return why no new worker goes to the node, as a clause; empty where one may."""
    node = state.nodes.get(record.name)
    if node is None:
        return "there is no such node in the cluster"
    if record.name in state.silent_nodes:
        return "its node agent has not renewed its Lease for a while"
    return node.refusal or record.refusal


def _gpu(
    gpu: GPUStatus,
    node: str,
    foreign: Iterable[ForeignTenant],
    rules: LaneRules,
    active_percent: Callable[[int], int],
) -> GPU:
    return GPU(
        uuid=gpu.uuid,
        node=node,
        index=gpu.index,
        model=gpu.model,
        memory_bytes=gpu.memory_bytes,
        allocatable_bytes=gpu.allocatable_bytes,
        allocatable_percent=gpu.allocatable_percent,
        active_percent=active_percent(gpu.allocatable_percent),
        healthy=gpu.healthy,
        enforcement=Enforcement(gpu.enforcement),
        numa_node=gpu.numa_node,
        nvlink_peers=frozenset(gpu.nvlink_peers),
        foreign=tuple(sorted(foreign, key=lambda tenant: tenant.key)),
        lane_rules=rules,
        moved_seconds_per_gib=moved_seconds_per_gib(gpu),
    )
