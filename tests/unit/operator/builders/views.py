"""What the operator knows at one moment, and what the scheduler gets of it."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.operator.cycle.job_cache import JobCache
from laneway.operator.cycle.scheduler_sync import SchedulerSync
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.state.cluster_state import ClusterState, Delta
from laneway.operator.state.records.gpu_node_record import GPUNodeRecord
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.node_record import NodeRecord
from laneway.operator.state.records.priority_class import PriorityClassRecord
from laneway.operator.state.records.profile_record import ProfileRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import ClusterSnapshot
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders.moment import NOW, TIMEOUTS
from tests.unit.operator.builders.nodes import a_node


def a_view(
    jobs: Iterable[JobRecord] = (),
    pods: Iterable[WorkerPod] = (),
    gpu_nodes: Iterable[GPUNodeRecord] = (),
    nodes: Iterable[NodeRecord] | None = None,
    priority_classes: Iterable[PriorityClassRecord] = (),
    silent: Iterable[str] = (),
    profiles: Iterable[ProfileRecord] = (),
) -> ClusterState:
    """The cache at one moment; every GPUNode has a ready Node where none are given."""
    gpu_nodes = tuple(gpu_nodes)
    nodes = [a_node(each.name) for each in gpu_nodes] if nodes is None else list(nodes)
    state = ClusterState()
    for job in jobs:
        state.note_job(None, job)
    for pod in pods:
        state.note_pod(None, pod)
    for gpu_node in gpu_nodes:
        state.note_gpu_node(None, gpu_node)
    for node in nodes:
        state.note_node(None, node)
    for priority_class in priority_classes:
        state.note_priority_class(None, priority_class)
    for profile in profiles:
        state.note_profile(None, profile)
    state.note_silence(frozenset(silent))
    return state


class SchedulerView:
    """The scheduler's input, kept from cycle to cycle."""

    def __init__(self) -> None:
        self._cache = JobCache(TIMEOUTS)
        self._sync = SchedulerSync(OperatorConfig())

    def update(self, view: ClusterState, delta: Delta, now: float = NOW) -> ClusterSnapshot:
        """Give the scheduler what has changed; return all that it has."""
        changed = self._cache.update(view, delta, WriteHistory({}, {}), (), now)
        self._sync.update(view, self._cache, delta, changed, now)
        return scheduler_input(self._sync)


def scheduler_input(sync: SchedulerSync) -> ClusterSnapshot:
    """What the scheduler has been given up to now."""
    nodes = [sync._nodes[name] for name in sorted(sync._nodes)]
    releasing = (job for node in nodes for job in node.releasing.values())
    avoided = sync.scheduler._state._avoid
    return ClusterSnapshot(
        nodes=tuple(each.node for each in nodes),
        jobs=tuple(sorted((*sync._jobs.values(), *releasing), key=lambda job: job.key)),
        avoid={key: avoided[key] for key in sorted(avoided) if avoided[key]},
    )


def snapshot_of(view: ClusterState, now: float = NOW) -> ClusterSnapshot:
    """What the scheduler has been given."""
    return SchedulerView().update(view, view.everything(), now)
