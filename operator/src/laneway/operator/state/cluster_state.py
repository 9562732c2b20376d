"""The known state of the cluster, indexed for the cycle, and the changes since the previous cycle.

The cache's stores note each change here as it arrives; the cycle takes the :class:`Delta`. A superfluous entry in a delta
costs time and changes no decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from laneway.api.gpu_node import SessionStatus
from laneway.operator.state.gangs import Gangs
from laneway.operator.state.records.gpu_node_record import GPUNodeRecord
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.node_record import NodeRecord
from laneway.operator.state.records.priority_class import PriorityClassRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.state.sessions import SessionIndex
from laneway.operator.state.sick_gpus import SickGPU, sick_gpus


@dataclass(slots=True)
class Delta:
    """The changes since the previous cycle."""

    jobs: set[str] = field(default_factory=set)
    """Uids of jobs to reconcile: the job itself, a worker or a session of it has changed. It may be gone."""

    measured: dict[str, None] = field(default_factory=dict)
    """Uids of jobs with new figures from their nodes (turns, iterations, progress), in the order of the reports."""

    nodes: set[str] = field(default_factory=set)
    """Nodes whose Node, agent's report or agent's silence has changed."""

    priority_classes: bool = False


class ClusterState:
    """All objects that the operator watches, by uid or name."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobRecord] = {}
        """By uid."""

        self.job_uids: dict[str, str] = {}
        """By ``namespace/name``."""

        self.gpu_nodes: dict[str, GPUNodeRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.priority_classes: dict[str, PriorityClassRecord] = {}
        self.silent_nodes: frozenset[str] = frozenset()
        """Nodes whose agent has not written for a while."""

        self.sessions = SessionIndex()
        self.sick_gpus: dict[str, SickGPU] = {}
        self.ordered_nodes: set[str] = set()
        """Nodes with orders of the operator's."""

        self.gangs_without_job: set[str] = set()
        """Uids of jobs that are gone and have workers."""

        self._gangs = Gangs()
        self._delta = Delta()

    @property
    def pods(self) -> dict[str, tuple[WorkerPod, ...]]:
        """Workers by the uid of their job, ordered by rank and attempt."""
        return self._gangs.of

    @property
    def unowned_pods(self) -> dict[str, WorkerPod]:
        """Workers without an owner reference to their job, by uid."""
        return self._gangs.unowned

    def pod(self, uid: str) -> WorkerPod | None:
        """Return a worker by its uid."""
        return self._gangs.by_uid.get(uid)

    def pod_of(self, session: SessionStatus) -> WorkerPod | None:
        """Return a session's worker; None for a plain pod, and where there is no pod."""
        return self._gangs.pod_of(session)

    def job(self, key: str) -> JobRecord | None:
        """Return a job by ``namespace/name``."""
        uid = self.job_uids.get(key)
        return None if uid is None else self.jobs[uid]

    def take_delta(self) -> Delta:
        """Return the changes since the last call."""
        delta, self._delta = self._delta, Delta()
        return delta

    def everything(self) -> Delta:
        """Return a delta of everything, for a cycle without earlier state."""
        return Delta(
            jobs=self.jobs.keys() | self.pods.keys(),
            nodes=self.gpu_nodes.keys() | self.nodes.keys(),
            priority_classes=True,
        )

    def note_job(self, before: JobRecord | None, after: JobRecord | None) -> None:
        """Note a TrainingJob that is new, has changed or is gone (None)."""
        if before is not None:
            del self.jobs[before.uid], self.job_uids[before.key]
        if after is not None:
            self.jobs[after.uid] = after
            self.job_uids[after.key] = after.uid
        for record in (before, after):
            if record is not None:
                self._changed_gang(record.uid)

    def note_pod(self, before: WorkerPod | None, after: WorkerPod | None) -> None:
        """Note a worker that is new, has changed or is gone (None)."""
        self._gangs.note(before, after)
        for pod in (before, after):
            if pod is not None:
                self._changed_gang(pod.job_uid)

    def note_gpu_node(self, before: GPUNodeRecord | None, after: GPUNodeRecord | None) -> None:
        """Note a GPUNode that is new, has changed or is gone (None)."""
        record = after or before
        if record is None:
            return  # it could not be read, and cannot yet
        gangs = self._gangs_on(record.name)
        self.sessions.report(record.name, after)
        gangs |= self._gangs_on(record.name)
        if before is not None:
            del self.gpu_nodes[before.name]
            for gpu in before.gpus:
                self.sick_gpus.pop(gpu.uuid, None)
        self.ordered_nodes.discard(record.name)
        if after is not None:
            self.gpu_nodes[after.name] = after
            self.sick_gpus.update(sick_gpus([after]))
            if after.own_orders:
                self.ordered_nodes.add(after.name)
        if before is not None and after is not None and before.decisive == after.decisive:
            self._delta.measured.update(dict.fromkeys(gangs))
        else:
            self._delta.nodes.add(record.name)
            self._delta.jobs |= gangs

    def note_node(self, before: NodeRecord | None, after: NodeRecord | None) -> None:
        """Note a Node that is new, has changed or is gone (None)."""
        if before is not None:
            del self.nodes[before.name]
            self._delta.nodes.add(before.name)
        if after is not None:
            self.nodes[after.name] = after
            self._delta.nodes.add(after.name)

    def note_priority_class(
        self, before: PriorityClassRecord | None, after: PriorityClassRecord | None
    ) -> None:
        """Note a PriorityClass that is new, has changed or is gone (None)."""
        if before is not None:
            del self.priority_classes[before.name]
        if after is not None:
            self.priority_classes[after.name] = after
        self._delta.priority_classes = True

    def note_silence(self, nodes: frozenset[str]) -> None:
        """Note which nodes' agents are silent."""
        self._delta.nodes |= nodes ^ self.silent_nodes
        self.silent_nodes = nodes

    def _changed_gang(self, uid: str) -> None:
        self._delta.jobs.add(uid)
        if uid in self.pods and uid not in self.jobs:
            self.gangs_without_job.add(uid)
        else:
            self.gangs_without_job.discard(uid)

    def _gangs_on(self, node: str) -> set[str]:
        pods = (self.pod_of(hold.session) for hold in self.sessions.on(node))
        return {pod.job_uid for pod in pods if pod is not None}
