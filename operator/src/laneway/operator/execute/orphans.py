"""Workers that Kubernetes' garbage collector does not know, or does not delete.

It deletes workers by their owner reference when their job is deleted. There are two ways for it not to:

- **The job is gone and its workers are not**: the collector is off, or the job was deleted with ``--cascade=orphan``. They would
  hold their GPUs for ever, so the operator deletes them after a while, and at once where a job of the same name stands in line
  behind them: the names of its pods are theirs.
- **The job lives and a worker has lost its owner reference**: somebody edited it, or a backup was restored. It goes on with its job; the
  reference is put back, so that it ends with its job. One that is not what the job's status says it is (another node, a rank
  that there is not) was not made by the operator; it is deleted.

Pods with another controller, or with a name that no worker has, never get here: see :func:`parse_worker_pod`.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod


@dataclass(frozen=True, slots=True)
class Findings:
    """What is to be done about workers without an owner."""

    overdue: tuple[WorkerPod, ...] = ()
    """Their job is gone: to be deleted, after another look at the API server."""

    adoptable: tuple[tuple[JobRecord, WorkerPod], ...] = ()
    """To be given back to their job, after another look at the API server."""

    mismatched_pods: tuple[WorkerPod, ...] = ()
    """Mismatched pods: labelled as workers of a living job, but not where its status places them. To be deleted."""


class Orphans:
    """Remembers since when a worker has had no job, and when one was to be given back to its job."""

    def __init__(self, orphan_seconds: float) -> None:
        """Wait so long until a worker without a job is deleted, or until an adoption is tried again."""
        self._orphan_seconds = orphan_seconds
        self._since_seconds: dict[str, float] = {}
        self._tried_seconds: dict[str, float] = {}

    def find(self, state: ClusterState, now_seconds: float) -> Findings:
        """Return the workers without an owner that are due."""
        alone = [pod for pod in state.unowned_pods.values() if not pod.deleting]
        ours = [(state.jobs[pod.job_uid], pod) for pod in alone if pod.job_uid in state.jobs]
        current = [(job, pod) for job, pod in ours if not job.deleting and pod.attempt == job.status.attempt]
        return Findings(
            self._overdue(state, now_seconds),
            self._due([(job, pod) for job, pod in current if _as_placed(job, pod)], now_seconds),
            tuple(pod for job, pod in current if job.placed and not _as_placed(job, pod)),
        )

    def _overdue(self, state: ClusterState, now_seconds: float) -> tuple[WorkerPod, ...]:
        orphans = [
            pod for uid in sorted(state.gangs_without_job) for pod in state.pods[uid] if not pod.deleting
        ]
        self._since_seconds = {pod.uid: self._since_seconds.get(pod.uid, now_seconds) for pod in orphans}
        return tuple(
            pod
            for pod in orphans
            if now_seconds - self._since_seconds[pod.uid] >= self._orphan_seconds
            or f"{pod.namespace}/{pod.job_name}" in state.job_uids
        )

    def _due(
        self, adoptable: list[tuple[JobRecord, WorkerPod]], now_seconds: float
    ) -> tuple[tuple[JobRecord, WorkerPod], ...]:
        """Return those that were not tried lately: who may not patch pods must not ask in every cycle."""
        before = self._tried_seconds
        due = tuple(
            (job, pod)
            for job, pod in adoptable
            if pod.uid not in before or now_seconds - before[pod.uid] >= self._orphan_seconds
        )
        self._tried_seconds = {pod.uid: before.get(pod.uid, now_seconds) for _, pod in adoptable} | {
            pod.uid: now_seconds for _, pod in due
        }
        return due


def _as_placed(job: JobRecord, pod: WorkerPod) -> bool:
    """Whether a worker is where its job's status says."""
    return any(each.worker == pod.rank and each.node == pod.node for each in job.status.placement)
