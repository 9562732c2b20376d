"""Workers whose job is gone.

Kubernetes' garbage collector deletes them by their owner reference. Where it does not (it is off, or the job was deleted with
``--cascade=orphan``), they would hold their GPUs for ever, so the operator deletes them after a while.
"""

from __future__ import annotations

from laneway.operator.cache import ClusterView
from laneway.operator.records.worker_pod import WorkerPod


class Orphans:
    """Remembers since when a worker has had no job."""

    def __init__(self, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._since_seconds: dict[str, float] = {}

    def overdue(self, view: ClusterView, now_seconds: float) -> tuple[WorkerPod, ...]:
        """Return the workers that have been without a job for long enough to be deleted."""
        jobs = {job.uid for job in view.jobs}
        orphans = [
            pod for uid, pods in view.pods.items() if uid not in jobs for pod in pods if not pod.deleting
        ]
        self._since_seconds = {pod.uid: self._since_seconds.get(pod.uid, now_seconds) for pod in orphans}
        return tuple(
            pod for pod in orphans if now_seconds - self._since_seconds[pod.uid] >= self._patience_seconds
        )
