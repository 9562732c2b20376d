"""Fluent builders of the cluster's objects: ``a_job("a").gang(2).placed("n1", at=5).record``.

They build the objects as the API server has them and let the operator's own parsers read them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from laneway.api import names
from laneway.api.conditions import Condition
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import (
    ExecutionStatus,
    ProfileStatus,
    TrainingJobStatus,
    WorkerPlacementStatus,
)
from laneway.operator.cycle.cycle import Cycle, CycleResult
from laneway.operator.cycle.job_cache import JobCache
from laneway.operator.cycle.scheduler_sync import SchedulerSync
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.cycle.writes import JobWrite
from laneway.operator.execute.manifests import worker_pod
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.reconcile import reconcile
from laneway.operator.lifecycle.reconciled_job import ReconcileContext, ReconciledJob
from laneway.operator.state.cluster_state import ClusterState, Delta
from laneway.operator.state.records.gpu_node_record import GPUNodeRecord, parse_gpu_node
from laneway.operator.state.records.job_record import JobRecord, parse_job
from laneway.operator.state.records.node_record import NodeRecord, parse_node
from laneway.operator.state.records.priority_class import PriorityClassRecord
from laneway.operator.state.records.profile_record import ProfileRecord
from laneway.operator.state.records.worker_pod import WorkerPod, parse_worker_pod
from laneway.scheduling import ClusterSnapshot, WorkerPlacement
from laneway.scheduling.config.operator_config import OperatorConfig, SchedulingConfig, TimeoutsConfig
from prometheus_client.core import GaugeMetricFamily

GIB = 2**30
NOW = 1_000_000.0
TIMEOUTS = TimeoutsConfig()


class JobBuilder:
    """A TrainingJob in namespace ``ns``, created 100 s ago."""

    def __init__(self, name: str) -> None:
        self._status: TrainingJobStatus | None = None
        self._raw: dict[str, Any] = {
            "apiVersion": names.API_VERSION,
            "kind": "TrainingJob",
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"uid-{name}",
                "resourceVersion": "1",
                "generation": 1,
                "creationTimestamp": format_time(NOW - 100),
            },
            "spec": {
                "workers": 1,
                "gpus": {"type": "Count", "count": 1},
                "template": {"spec": {"containers": [{"name": "trainer", "image": "i"}]}},
            },
        }

    def spec(self, **fields: Any) -> Self:
        """Set fields of the spec."""
        self._raw["spec"].update(fields)
        return self

    def gang(self, workers: int) -> Self:
        """Ask for several workers."""
        return self.spec(workers=workers)

    def share(self, percent: int) -> Self:
        """Ask for a share of a GPU."""
        return self.spec(gpus={"type": "Share", "sharePercent": percent})

    def metadata(self, **fields: Any) -> Self:
        """Set fields of the metadata."""
        self._raw["metadata"].update(fields)
        return self

    def visited(self, at: float = NOW - 90) -> Self:
        """It was seen and admitted."""
        first = transitions.first_visited(TrainingJobStatus(), NOW - 100, at)
        self._status = transitions.admitted(first, at).model_copy(update={"observed_generation": 1})
        return self

    def placed(self, *nodes: str, at: float = NOW - 10, gpus: int = 1, percent: int = 100) -> Self:
        """Its workers are on these nodes, the n-th of a node on its GPU n."""
        if self._status is None:
            self.visited()
        assert self._status is not None
        self._status = transitions.placed(self._status, placement_on(*nodes, gpus=gpus, percent=percent), at)
        return self

    def running(self, since: float = NOW - 5) -> Self:
        """All of its workers run."""
        assert self._status is not None
        self._status = transitions.started(self._status, "AllWorkersRun", "they run", since)
        return self

    def status(self, **fields: Any) -> Self:
        """Set fields of the status."""
        assert self._status is not None
        self._status = self._status.model_copy(update=fields)
        return self

    def ran(
        self,
        profile: ProfileStatus | None = None,
        *,
        model: str = "A100",
        image_id: str = "sha256:1",
        at: float = NOW - 10,
    ) -> Self:
        """Its last attempt started then, on that GPU model and with that image, and was measured where there is a profile."""
        desired = self.record.desired
        assert desired is not None
        assert self._status is not None
        execution = ExecutionStatus(
            attempt=self._status.attempt,
            started_at=format_time(at),
            template_hash=desired.template_hash,
            gpu_models=(model,),
            imageIDs=(image_id,),
            profiled=profile is not None,
        )
        return self.status(profile=profile, execution=execution)

    def after(self, step: Any, *arguments: Any) -> Self:
        """Take a step of ``transitions``."""
        assert self._status is not None
        self._status = step(self._status, *arguments)
        return self

    @property
    def raw(self) -> dict[str, Any]:
        """The object as the API server has it."""
        raw = copy.deepcopy(self._raw)
        if self._status is not None:
            raw["status"] = self._status.to_json()
        return raw

    @property
    def record(self) -> JobRecord:
        """The object as the operator keeps it."""
        return parse_job(self.raw)


def a_job(name: str = "job") -> JobBuilder:
    """A job."""
    return JobBuilder(name)


def placement_on(*nodes: str, gpus: int = 1, percent: int = 100) -> tuple[WorkerPlacement, ...]:
    """Workers on these nodes, each with the next free GPUs of its node."""
    taken: dict[str, int] = {}
    placement = []
    for rank, node in enumerate(nodes):
        first = taken.get(node, 0)
        taken[node] = first + gpus
        uuids = tuple(gpu_uuid(node, index) for index in range(first, first + gpus))
        placement.append(WorkerPlacement(rank, node, uuids, percent))
    return tuple(placement)


def gpu_uuid(node: str, index: int) -> str:
    """The name of a node's GPU."""
    return f"{node}/{index}"


class PodBuilder:
    """The pod of one worker of a job's current attempt, as the operator makes it."""

    def __init__(self, job: JobRecord, rank: int = 0, attempt: int | None = None) -> None:
        assert job.desired is not None
        worker = next(each for each in job.status.placement if each.worker == rank)
        attempt = job.status.attempt if attempt is None else attempt
        self._raw = worker_pod(job, job.desired.spec, worker, attempt)
        name = self._raw["metadata"]["name"]
        self._raw["metadata"].update(uid=f"uid-{name}-{attempt}", resourceVersion="1")
        self._raw["status"] = {"phase": "Pending"}
        self._node = worker.node

    def bound(self) -> Self:
        """kube-scheduler let it on its node."""
        self._raw["spec"]["nodeName"] = self._node
        return self

    def running(self, since: float = NOW - 5) -> Self:
        """Its container runs."""
        return self.bound()._says("Running", {"running": {"startedAt": format_time(since)}})

    def ended(
        self,
        code: int = 0,
        reason: str = "Error",
        message: str = "",
        at: float = NOW - 1,
        since: float = NOW - 5,
    ) -> Self:
        """Its container ended."""
        terminated = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else reason,
            "message": message,
            "startedAt": format_time(since),
            "finishedAt": format_time(at),
        }
        return self.bound()._says("Failed" if code else "Succeeded", {"terminated": terminated})

    def refused(self, reason: str, message: str = "no") -> Self:
        """Its kubelet did not take it."""
        self.bound()._raw["status"] = {"phase": "Failed", "reason": reason, "message": message}
        return self

    def held_up(self, reason: str, message: str = "") -> Self:
        """Its container cannot start yet."""
        return self.bound()._says("Pending", {"waiting": {"reason": reason, "message": message}})

    def unschedulable(self, since: float, message: str = "Insufficient cpu") -> Self:
        """kube-scheduler finds no place for it."""
        self._raw["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
                "lastTransitionTime": format_time(since),
            }
        ]
        return self

    def disrupted(self, reason: str, message: str = "drained") -> Self:
        """The cluster takes it away."""
        self._raw["status"].setdefault("conditions", []).append(
            {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        )
        return self

    def deleting(self) -> Self:
        """It was deleted; its container is still ending."""
        self._raw["metadata"]["deletionTimestamp"] = format_time(NOW)
        return self

    def _says(self, phase: str, state: dict[str, Any]) -> Self:
        trainer = {"name": "trainer", "imageID": "example.invalid/i@sha256:1", "state": state}
        self._raw["status"] = {"phase": phase, "containerStatuses": [trainer]}
        return self

    @property
    def raw(self) -> dict[str, Any]:
        """The object as the API server has it."""
        return self._raw

    @property
    def record(self) -> WorkerPod:
        """The object as the operator keeps it."""
        return parse_worker_pod(self._raw)


def a_pod(job: JobRecord, rank: int = 0, attempt: int | None = None) -> PodBuilder:
    """A worker's pod."""
    return PodBuilder(job, rank, attempt)


def a_session(pod: WorkerPod, **figures: Any) -> dict[str, Any]:
    """A session of a worker, as its node reports it."""
    return {
        "key": pod.uid,
        "namespace": pod.namespace,
        "pod": pod.name,
        "podUID": pod.uid,
        "container": "trainer",
        "sharePercent": pod.share_percent,
        "quotaBytes": GIB,
        "state": "Holding",
        **figures,
    }


def a_plain_session(name: str, percent: int, **figures: Any) -> dict[str, Any]:
    """A session of a pod that is none of ours."""
    return {
        "key": name,
        "namespace": "other",
        "pod": name,
        "podUID": f"uid-{name}",
        "container": "c",
        "sharePercent": percent,
        "quotaBytes": GIB,
        "state": "Allocated",
        **figures,
    }


def a_gpu(node: str, index: int) -> dict[str, Any]:
    """A GPU of 80 GiB, as its node reports it."""
    return {
        "uuid": gpu_uuid(node, index),
        "index": index,
        "model": "A100",
        "memoryBytes": 80 * GIB,
        "allocatableBytes": 80 * GIB,
        "allocatablePercent": 100,
        "healthy": True,
        "sessions": [],
    }


def a_gpu_node(
    name: str,
    gpus: int = 4,
    *,
    ready: bool = True,
    sessions: Mapping[int, Sequence[dict[str, Any]]] | None = None,
    sick: dict[int, float] | None = None,
) -> GPUNodeRecord:
    """What a node's agent reports: GPUs of 80 GiB, some of them out of use since some time."""
    condition = Condition(
        type="Ready",
        status="True" if ready else "False",
        reason="Tested",
        message="",
        last_transition_time=format_time(NOW),
    )
    listed = [
        {
            **a_gpu(name, index),
            **_health((sick or {}).get(index)),
            "sessions": list((sessions or {}).get(index, ())),
        }
        for index in range(gpus)
    ]
    return parse_gpu_node(
        {"metadata": {"name": name}, "status": {"conditions": [condition.to_json()], "gpus": listed}}
    )


def _health(sick_since: float | None) -> dict[str, Any]:
    if sick_since is None:
        return {}
    return {"healthy": False, "healthReason": "XID 79", "unhealthySince": format_time(sick_since)}


def a_node(
    name: str,
    *,
    ready: bool = True,
    since: float = NOW - 1000,
    cordoned: bool = False,
    labels: dict[str, str] | None = None,
    taints: Sequence[dict[str, str]] = (),
) -> NodeRecord:
    """A Node."""
    condition = {
        "type": "Ready",
        "status": "True" if ready else "Unknown",
        "lastTransitionTime": format_time(since),
    }
    return parse_node(
        {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"unschedulable": cordoned, "taints": list(taints)},
            "status": {"conditions": [condition]},
        }
    )


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

    def __init__(self, active_percent: int | None = None) -> None:
        self._cache = JobCache(TIMEOUTS)
        config = OperatorConfig(scheduling=SchedulingConfig(active_percent=active_percent))
        self._sync = SchedulerSync(config)

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


def snapshot_of(view: ClusterState, now: float = NOW, active_percent: int | None = None) -> ClusterSnapshot:
    """What the scheduler has been given."""
    return SchedulerView(active_percent).update(view, view.everything(), now)


def context_of(
    view: ClusterState,
    refusals: dict[tuple[str, int], str] | None = None,
    now: float = NOW,
    timeouts: TimeoutsConfig = TIMEOUTS,
) -> ReconcileContext:
    """What the jobs of a view are judged by."""
    return ReconcileContext(view, timeouts, now, refusals or {})


def reconciled_job_of(
    job: JobRecord, *pods: WorkerPod, view: ClusterState | None = None, **options: Any
) -> ReconciledJob:
    """The state of one job on two nodes."""
    view = view or a_view(gpu_nodes=[a_gpu_node("n1"), a_gpu_node("n2")])
    return reconcile(job, pods, context_of(view, **options))


def reasons(reconciled: ReconciledJob) -> list[str]:
    """The reasons of a reconciled job's events, in order."""
    return [event.reason for event in reconciled.events]


def decided(
    view: ClusterState,
    now: float = NOW,
    written: dict[str, float] | None = None,
    config: OperatorConfig | None = None,
) -> CycleResult:
    """What a cycle would do that sees the cluster for the first time."""
    config = config or OperatorConfig()
    return Cycle(config).run(view, WriteHistory({}, written or {}), now)


def samples_of(gauges: Iterable[GaugeMetricFamily]) -> dict[tuple[str, ...], float]:
    """The values that Prometheus reads, other than 0, by name and labels: ``("laneway_jobs", "waiting")``."""
    samples = (sample for gauge in gauges for sample in gauge.samples)
    return {(each.name, *each.labels.values()): each.value for each in samples if each.value}


def gauges_of(view: ClusterState) -> dict[tuple[str, ...], float]:
    """What the metrics show after a cycle that sees the cluster for the first time."""
    config = OperatorConfig()
    cycle = Cycle(config)
    cycle.run(view, WriteHistory({}, {}), NOW)
    return samples_of(cycle.gauges(NOW))


def states_of(gauges: dict[tuple[str, ...], float]) -> dict[str, float]:
    """How many jobs are in each state."""
    return {key[1]: value for key, value in gauges.items() if key[0] == "laneway_jobs"}


def a_write(
    before: JobRecord,
    after: TrainingJobStatus,
    *,
    writes_status: bool = True,
    creates: tuple[WorkerPlacementStatus, ...] = (),
) -> JobWrite:
    """The writes that give a job another status, and make pods."""
    return JobWrite(before, ReconciledJob(before.with_status(after), None), writes_status, creates)


def write_of(result: CycleResult, job: str) -> JobWrite | None:
    """The writes about a job of namespace ``ns``; None if there are none."""
    return next((each for each in result.writes if each.job.key == f"ns/{job}"), None)


def condition_of(status: TrainingJobStatus, kind: str) -> tuple[str, str]:
    """A condition as (status, reason)."""
    found = next(each for each in status.conditions if each.type == kind)
    return found.status, found.reason
