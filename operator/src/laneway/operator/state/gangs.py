"""Worker pods by the gang that they belong to, by uid and by name."""

from __future__ import annotations

from laneway.api.gpu_node import SessionStatus
from laneway.operator.state.records.worker_pod import WorkerPod


class Gangs:
    """All worker pods."""

    def __init__(self) -> None:
        self.of: dict[str, tuple[WorkerPod, ...]] = {}
        """By the uid of the job, ordered by rank and attempt; no empty ones."""

        self.by_uid: dict[str, WorkerPod] = {}
        self.unowned: dict[str, WorkerPod] = {}
        """By uid: pods without an owner reference to their job."""

        self._by_name: dict[tuple[str, str], WorkerPod] = {}

    def note(self, before: WorkerPod | None, after: WorkerPod | None) -> None:
        """Note a pod that is new, has changed or is gone (None)."""
        if before is not None:
            for pods in (self.by_uid, self.unowned):
                pods.pop(before.uid, None)
            self._by_name.pop((before.namespace, before.name), None)
            self._keep(before.job_uid, [pod for pod in self.of[before.job_uid] if pod is not before])
        if after is not None:
            self.by_uid[after.uid] = after
            self._by_name[after.namespace, after.name] = after
            if not after.owned:
                self.unowned[after.uid] = after
            self._keep(after.job_uid, [*self.of.get(after.job_uid, ()), after])

    def pod_of(self, session: SessionStatus) -> WorkerPod | None:
        """Return a session's worker; None for a plain pod, and where there is no pod.

        A session whose pod the node could not name by uid yet is found by the pod's name.
        """
        if session.pod_uid:
            return self.by_uid.get(session.pod_uid)
        return self._by_name.get((session.namespace, session.pod))

    def _keep(self, job_uid: str, pods: list[WorkerPod]) -> None:
        if pods:
            self.of[job_uid] = tuple(sorted(pods, key=lambda pod: (pod.rank, pod.attempt)))
        else:
            self.of.pop(job_uid, None)
