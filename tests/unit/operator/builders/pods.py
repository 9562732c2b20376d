"""Workers' pods: ``a_pod(job, rank=1).running(since=5).record``."""

from __future__ import annotations

from typing import Any, Self

from laneway.api.rfc3339 import format_time
from laneway.operator.execute.manifests import worker_pod
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod, parse_worker_pod

from tests.unit.operator.builders.moment import NOW


class PodBuilder:
    """The pod of one worker of a job's current attempt, as the operator makes it."""

    def __init__(self, job: JobRecord, rank: int = 0, attempt: int | None = None) -> None:
        assert job.desired is not None
        worker = next(each for each in job.status.placement if each.worker == rank)
        attempt = job.status.attempt if attempt is None else attempt
        self._raw = worker_pod(job, job.desired.spec.with_workers(job.attempt_workers), worker, attempt)
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
