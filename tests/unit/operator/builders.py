"""Fluent ways to say what is in the cluster: ``a_job("a").gang(2).placed("n1", at=5).record``.

They build the objects as the API server has them and let the operator's own parsers read them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

from laneway.api import names
from laneway.api.clock_text import to_text
from laneway.api.conditions import Condition
from laneway.api.training_job import TrainingJobStatus
from laneway.lanes import LaneRules
from laneway.operator import transitions
from laneway.operator.cache import ClusterView, Gangs
from laneway.operator.config import OperatorConfig, PatienceConfig
from laneway.operator.deciding import Decision, decide
from laneway.operator.docket import Docket
from laneway.operator.gang import Surroundings
from laneway.operator.lifecycle import advance
from laneway.operator.manifests import worker_pod
from laneway.operator.memory import Memory
from laneway.operator.picture import Picture
from laneway.operator.records.gpu_node_record import GPUNodeRecord, parse_gpu_node
from laneway.operator.records.job_record import JobRecord, parse_job
from laneway.operator.records.node_record import NodeRecord, parse_node
from laneway.operator.records.priority_class import PriorityClassRecord
from laneway.operator.records.worker_pod import WorkerPod, parse_worker_pod
from laneway.operator.sessions import index_sessions
from laneway.operator.sick_gpus import sick_gpus
from laneway.operator.standing import Facts, Standing
from laneway.operator.statements import JobStatement
from laneway.scheduling import ClusterSnapshot, WorkerPlacement, policies

GIB = 2**30
NOW = 1_000_000.0
PATIENCE = PatienceConfig()


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
                "creationTimestamp": to_text(NOW - 100),
            },
            "spec": {
                "workers": 1,
                "gpus": {"perWorker": 1},
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
        return self.spec(gpus={"share": percent})

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
        assert job.wish is not None
        worker = next(each for each in job.status.placement if each.worker == rank)
        attempt = job.status.attempt if attempt is None else attempt
        self._raw = worker_pod(job, job.wish.spec, worker, attempt)
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
        return self.bound()._says("Running", {"running": {"startedAt": to_text(since)}})

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
            "startedAt": to_text(since),
            "finishedAt": to_text(at),
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
                "lastTransitionTime": to_text(since),
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
        """Somebody deleted it; its container still ends."""
        self._raw["metadata"]["deletionTimestamp"] = to_text(NOW)
        return self

    def _says(self, phase: str, state: dict[str, Any]) -> Self:
        self._raw["status"] = {"phase": phase, "containerStatuses": [{"name": "trainer", "state": state}]}
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
        last_transition_time=to_text(NOW),
    )
    listed = [
        {
            "uuid": gpu_uuid(name, index),
            "index": index,
            "model": "A100",
            "memoryBytes": 80 * GIB,
            "allocatableBytes": 80 * GIB,
            "allocatablePercent": 100,
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
        return {"healthy": True}
    return {"healthy": False, "healthReason": "XID 79", "unhealthySince": to_text(sick_since)}


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
        "lastTransitionTime": to_text(since),
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
) -> ClusterView:
    """The cache at one moment; every GPUNode has a ready Node where none are given."""
    gpu_nodes = tuple(gpu_nodes)
    nodes = [a_node(each.name) for each in gpu_nodes] if nodes is None else list(nodes)
    gangs = Gangs()
    for pod in pods:
        gangs.note(None, pod)
    return ClusterView(
        jobs=tuple(jobs),
        pods=MappingProxyType(gangs.of),
        gpu_nodes=gpu_nodes,
        nodes=MappingProxyType({node.name: node for node in nodes}),
        priority_classes=MappingProxyType({each.name: each for each in priority_classes}),
        silent_nodes=frozenset(silent),
        pod_of=gangs.pod_of,
    )


def snapshot_of(view: ClusterView, now: float = NOW, active_percent: int | None = None) -> ClusterSnapshot:
    """What the planner gets to see."""
    docket = Docket(PATIENCE)
    picture = Picture(policies(), LaneRules(), active_percent)
    news = docket.update(view, {}, {}, (), now)
    picture.update(view, docket, news, now)
    return picture.snapshot()


def facts_of(
    view: ClusterView,
    refusals: dict[tuple[str, int], str] | None = None,
    now: float = NOW,
    patience: PatienceConfig = PATIENCE,
) -> Facts:
    """What the jobs of a view are judged by."""
    around = Surroundings(
        view.nodes, index_sessions(view.gpu_nodes), patience, now, sick_gpus(view.gpu_nodes)
    )
    return Facts(around, view.priority_classes, refusals or {})


def advanced(job: JobRecord, *pods: WorkerPod, view: ClusterView | None = None, **options: Any) -> Standing:
    """Where one job stands, on two nodes."""
    view = view or a_view(gpu_nodes=[a_gpu_node("n1"), a_gpu_node("n2")])
    return advance(job, pods, facts_of(view, **options))


def decided(
    view: ClusterView,
    now: float = NOW,
    written: dict[str, float] | None = None,
    config: OperatorConfig | None = None,
) -> Decision:
    """What a cycle would do."""
    config = config or OperatorConfig()
    memory = Memory(refusals={}, written_seconds=written or {})
    return decide(view, memory, config.scheduling.policies(), config, now)


def statement_of(decision: Decision, job: str) -> JobStatement | None:
    """What is to be written about a job of namespace ``ns``; None where nothing is."""
    return next((each for each in decision.statements if each.job.key == f"ns/{job}"), None)


def condition_of(status: TrainingJobStatus, kind: str) -> tuple[str, str]:
    """A condition as (status, reason)."""
    found = next(each for each in status.conditions if each.type == kind)
    return found.status, found.reason
