"""Applies, reads and waits for TrainingJobs, for the demo and the end-to-end tests."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laneway.api import names, rfc3339
from laneway.api.conditions import is_true
from laneway.api.training_job_status import TrainingJobStatus

from hack.cluster.kubectl import Kubectl
from hack.cluster.progress import ClusterError
from hack.demo.api import Api

_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class JobView:
    """One TrainingJob as last read."""

    name: str
    uid: str
    workers: int
    created_seconds: float
    status: TrainingJobStatus

    def has(self, condition: str) -> bool:
        """Whether a condition holds."""
        return is_true(self.status.conditions, condition)

    def message(self, condition: str) -> str:
        """The message of a condition; empty if the condition is not set."""
        return next((each.message for each in self.status.conditions if each.type == condition), "")

    @property
    def ended(self) -> bool:
        """Whether it succeeded or failed."""
        return self.has("Complete") or self.has("Failed")

    @property
    def jct_seconds(self) -> float | None:
        """Time from creation to end; None before the end."""
        done = self.status.completion_time
        return None if done is None else rfc3339.parse_time(done) - self.created_seconds

    @property
    def attained_gpu_seconds(self) -> float:
        """Attained service as last reported."""
        return self.status.attained_service_gpu_milliseconds / 1000

    @property
    def state(self) -> str:
        """A summary of the conditions."""
        for condition in ("Complete", "Failed"):
            if self.has(condition):
                return condition
        waiting = self.status.waiting
        if waiting is not None:
            return waiting.reason
        return "Running" if self.has("Running") else "New"


def job_view(raw: Mapping[str, Any]) -> JobView:
    """Return a view of the API's TrainingJob."""
    return JobView(
        name=raw["metadata"]["name"],
        uid=raw["metadata"]["uid"],
        workers=raw["spec"].get("workers", 1),
        created_seconds=rfc3339.parse_time(raw["metadata"]["creationTimestamp"]),
        status=TrainingJobStatus.model_validate(raw.get("status") or {}),
    )


class Jobs:
    """The TrainingJobs of one namespace."""

    def __init__(self, api: Api, kubectl: Kubectl, namespace: str) -> None:
        self.namespace = namespace
        self._api = api
        self._kubectl = kubectl
        self._path = f"/apis/{names.API_VERSION}/namespaces/{namespace}/trainingjobs"

    def make_namespace(self) -> None:
        """Create the namespace if it does not exist, and wait until it accepts pods."""
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        self._kubectl.run("apply", "--server-side", "--filename", "-", stdin=json.dumps(manifest))
        # A controller creates the account shortly after the namespace. Until then the API server refuses every pod.
        account = ("serviceaccount/default", "--namespace", self.namespace)
        self._kubectl.run("wait", "--for=create", *account, "--timeout=60s")

    def apply(self, manifests: Iterable[Path | Mapping[str, Any]]) -> None:
        """`kubectl apply` files and objects, all in one call.

        Raises:
            ClusterError: an object was refused; the message says why.
        """
        files, objects = [], []
        for each in manifests:
            if isinstance(each, Path):
                files += ["--filename", str(each)]
            else:
                objects.append(each)
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}) if objects else None
        given = ["--filename", "-"] if objects else []
        self._kubectl.run("apply", "--namespace", self.namespace, *files, *given, stdin=document)

    def views(self) -> dict[str, JobView]:
        """Return all jobs by name."""
        return {view.name: view for view in map(job_view, self._api.items(self._path))}

    def view(self, name: str) -> JobView:
        """Return one job."""
        return job_view(self._api.get(f"{self._path}/{name}"))

    def pods(self, job: str | None = None) -> list[dict[str, Any]]:
        """Return the pods of a job, or of all jobs."""
        selector = names.JOB_LABEL if job is None else f"{names.JOB_LABEL}={job}"
        return self._api.items(f"/api/v1/namespaces/{self.namespace}/pods", {"labelSelector": selector})

    def wait(
        self,
        job_names: Sequence[str],
        condition: Callable[[JobView], bool],
        what: str,
        timeout_seconds: float,
        look: Callable[[Mapping[str, JobView]], None] = lambda views: None,
    ) -> dict[str, JobView]:
        """Wait until a condition holds for all of these jobs. Each poll calls ``look`` with every job.

        Raises:
            ClusterError: the condition does not hold in time; the message names the jobs and their states.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            views = self.views()
            look(views)
            missing = [name for name in job_names if name not in views or not condition(views[name])]
            if not missing:
                return views
            if time.monotonic() > deadline:
                states = "; ".join(describe(views.get(name), name) for name in missing)
                raise ClusterError(f"{what}: not within {timeout_seconds:.0f} s: {states}")
            time.sleep(_POLL_SECONDS)

    def delete_all(self, timeout_seconds: float = 120.0) -> None:
        """Delete every job and wait until their pods have ended, so that the GPUs are free."""
        deadline = time.monotonic() + timeout_seconds
        wait = ("--wait=true", f"--timeout={timeout_seconds:.0f}s")
        self._kubectl.run("delete", "trainingjobs", "--all", "--namespace", self.namespace, *wait)
        while self.pods():
            if time.monotonic() > deadline:
                left = ", ".join(pod["metadata"]["name"] for pod in self.pods())
                raise ClusterError(f"pods of deleted jobs still exist after {timeout_seconds:.0f} s: {left}")
            time.sleep(_POLL_SECONDS)


def describe(view: JobView | None, name: str) -> str:
    """Return one sentence about a job's state."""
    if view is None:
        return f"{name} does not exist"
    waiting = view.status.waiting
    if waiting is not None:
        return f"{name} waits: {waiting.message}"
    failed = f": {view.message('Failed')}" if view.has("Failed") else ""
    workers = len(view.status.placement)
    placed = f" with {workers} worker{'s' if workers > 1 else ''}" if workers else ""
    return f"{name} is {view.state}{placed}{failed}"
