"""The known state of the cluster, indexed for the cycle, and the changes since the previous cycle.

The cache's stores note each change here as it arrives; the cycle takes the :class:`Delta`. A superfluous entry in a delta
costs time and changes no decision.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from laneway.operator.state.records.gpu_node_record import GPUNodeRecord
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.node_record import NodeRecord
from laneway.operator.state.records.priority_class import PriorityClassRecord
from laneway.operator.state.records.profile_record import ProfileRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.state.sessions import Hold, SessionIndex

_ENDED_JOBS = 200
"""A cycle looks at each within about a second. Later it is needed only where everything is computed again."""


@dataclass(slots=True)
class Delta:
    """The changes since the previous cycle."""

    jobs: set[str] = field(default_factory=set)
    """Uids of jobs to reconcile: the job itself, a worker or a session of it has changed. It may be gone."""

    measured: dict[str, None] = field(default_factory=dict)
    """Uids of jobs with new figures from their nodes (turns, iterations, progress), in the order of the reports."""

    nodes: set[str] = field(default_factory=set)
    """Nodes whose Node, agent's report or agent's silence has changed."""

    deleted: dict[str, JobRecord] = field(default_factory=dict)
    """By uid: jobs that ran, and are gone without having ended; the first 200."""

    profiles: set[str] = field(default_factory=set)
    """Keys of TrainingProfiles."""

    other_workers_on: set[str] = field(default_factory=set)
    """Nodes to which a worker has come, that one has left, or where one has ended."""

    priority_classes: bool = False


class ClusterState:
    """All objects that the operator watches, by uid or name."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobRecord] = {}
        """By uid."""

        self.ended_jobs: OrderedDict[str, JobRecord] = OrderedDict()
        """By uid: the last jobs that are gone and had ended. What they showed of their template still counts."""

        self.job_uids: dict[str, str] = {}
        """By ``namespace/name``."""

        self.gpu_nodes: dict[str, GPUNodeRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.priority_classes: dict[str, PriorityClassRecord] = {}
        self.profiles: dict[str, dict[str, ProfileRecord]] = {}
        """By namespace and name; no empty namespaces."""

        self.silent_nodes: frozenset[str] = frozenset()
        """Nodes whose agent has not renewed its Lease for a while."""

        self.sessions = SessionIndex()
        self.ordered_nodes: set[str] = set()
        """Nodes with orders of the operator's."""

        self.gangs_without_job: set[str] = set()
        """Uids of jobs that are gone and have workers."""

        self.pods: dict[str, tuple[WorkerPod, ...]] = {}
        """Workers by the uid of their job, ordered by rank and attempt; no empty gangs."""

        self.pod_by_uid: dict[str, WorkerPod] = {}
        self.unowned_pods: dict[str, WorkerPod] = {}
        """Workers without an owner reference to their job, by uid."""

        self.pods_on: dict[str, dict[str, WorkerPod]] = {}
        """Workers that have not ended, by node and uid."""

        self._pod_by_name: dict[tuple[str, str], WorkerPod] = {}
        self._delta = Delta()

    def pod_of(self, hold: Hold) -> WorkerPod | None:
        """Return a session's worker; None for a plain pod, and where there is no pod.

        A session whose pod the node could not name by uid yet is found by the pod's name.
        """
        session = hold.session
        if session.pod_uid:
            return self.pod_by_uid.get(session.pod_uid)
        pod = self._pod_by_name.get((session.namespace, session.pod))
        return pod if pod is not None and pod.node == hold.node else None

    def take_delta(self) -> Delta:
        """Return the changes since the last call."""
        delta, self._delta = self._delta, Delta()
        return delta

    def everything(self) -> Delta:
        """Return a delta of everything, for a cycle without earlier state."""
        return Delta(
            jobs=self.jobs.keys() | self.pods.keys() | self.ended_jobs.keys(),
            nodes=self.gpu_nodes.keys() | self.nodes.keys(),
            profiles={each.key for there in self.profiles.values() for each in there.values()},
            priority_classes=True,
        )

    def note_job(self, before: JobRecord | None, after: JobRecord | None) -> None:
        """Note a TrainingJob that is new, has changed or is gone (None)."""
        if before is not None:
            del self.jobs[before.uid], self.job_uids[before.key]
        if after is not None:
            self.jobs[after.uid] = after
            self.job_uids[after.key] = after.uid
        elif before is not None and before.finished:
            self.ended_jobs[before.uid] = before
            if len(self.ended_jobs) > _ENDED_JOBS:
                self.ended_jobs.popitem(last=False)
        elif before is not None and before.status.execution is not None:
            self._note_deleted(before)
        for record in (before, after):
            if record is not None:
                self._changed_gang(record.uid)

    def _note_deleted(self, job: JobRecord) -> None:
        if len(self._delta.deleted) < _ENDED_JOBS:  # a replica that does not lead takes no delta for long
            self._delta.deleted[job.uid] = job

    def note_pod(self, before: WorkerPod | None, after: WorkerPod | None) -> None:
        """Note a worker that is new, has changed or is gone (None)."""
        self._note_on_node(before, after)
        if before is not None:
            self.pod_by_uid.pop(before.uid, None)
            self.unowned_pods.pop(before.uid, None)
            self._pod_by_name.pop((before.namespace, before.name), None)
            self._keep(before.job_uid, [pod for pod in self.pods[before.job_uid] if pod is not before])
        if after is not None:
            self.pod_by_uid[after.uid] = self._pod_by_name[after.namespace, after.name] = after
            if not after.owned:
                self.unowned_pods[after.uid] = after
            self._keep(after.job_uid, [*self.pods.get(after.job_uid, ()), after])

    def _note_on_node(self, before: WorkerPod | None, after: WorkerPod | None) -> None:
        left = None if before is None or before.ended else before.node
        came = None if after is None or after.ended else after.node
        if before is not None and left is not None:
            there = self.pods_on[left]
            del there[before.uid]
            if not there:
                del self.pods_on[left]
        if after is not None and came is not None:
            self.pods_on.setdefault(came, {})[after.uid] = after
        if left != came:
            self._delta.other_workers_on |= {node for node in (left, came) if node is not None}

    def _keep(self, job_uid: str, pods: list[WorkerPod]) -> None:
        if pods:
            self.pods[job_uid] = tuple(sorted(pods, key=lambda pod: (pod.rank, pod.attempt)))
        else:
            del self.pods[job_uid]
        self._changed_gang(job_uid)

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
        self.ordered_nodes.discard(record.name)
        if after is not None:
            self.gpu_nodes[after.name] = after
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

    def note_profile(self, before: ProfileRecord | None, after: ProfileRecord | None) -> None:
        """Note a TrainingProfile that is new, has changed or is gone (None)."""
        if before is not None:
            there = self.profiles[before.namespace]
            del there[before.name]
            if not there:
                del self.profiles[before.namespace]
        if after is not None:
            self.profiles.setdefault(after.namespace, {})[after.name] = after
        self._delta.profiles |= {each.key for each in (before, after) if each is not None}

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
        pods = (self.pod_of(hold) for hold in self.sessions.on(node))
        return {pod.job_uid for pod in pods if pod is not None}
