"""TrainingJobs as the demo and the end-to-end tests see them: read from the API, applied and waited for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laneway.api import clock_text, names, quantity
from laneway.api.conditions import is_true
from laneway.api.training_job import TrainingJobStatus

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
        """The sentence of a condition, empty when it is not set."""
        return next((each.message for each in self.status.conditions if each.type == condition), "")

    @property
    def ended(self) -> bool:
        """Whether it succeeded or failed."""
        return self.has("Succeeded") or self.has("Failed")

    @property
    def jct_seconds(self) -> float | None:
        """From its creation to its end; None while it has not ended."""
        done = self.status.completion_time
        return None if done is None else clock_text.to_seconds(done) - self.created_seconds

    @property
    def attained_gpu_seconds(self) -> float:
        """Its attained service as last counted."""
        return float(quantity.parse(self.status.attained_service))

    @property
    def state(self) -> str:
        """How it is doing, in a word or two."""
        for condition in ("Succeeded", "Failed"):
            if self.has(condition):
                return condition
        waiting = self.status.waiting
        if waiting is not None:
            return waiting.reason
        return "Running" if self.has("Running") else "New"


def job_view(raw: Mapping[str, Any]) -> JobView:
    """Return a TrainingJob of the API as a view."""
    return JobView(
        name=raw["metadata"]["name"],
        uid=raw["metadata"]["uid"],
        workers=raw["spec"].get("workers", 1),
        created_seconds=clock_text.to_seconds(raw["metadata"]["creationTimestamp"]),
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
        """Make the namespace if it is not there, and wait until pods can be made in it."""
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        self._kubectl.run("apply", "--server-side", "--filename", "-", stdin=json.dumps(manifest))
        # A controller makes it a moment after the namespace; until then every pod is refused.
        account = ("serviceaccount/default", "--namespace", self.namespace)
        self._kubectl.run("wait", "--for=create", *account, "--timeout=60s")

    def apply(self, manifests: Iterable[Path | Mapping[str, Any]]) -> None:
        """`kubectl apply` files and objects, all in one call.

        Raises:
            ClusterError: one was refused; says why.
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
        """Wait until a condition holds for all of these jobs; ``look`` sees every job at each poll.

        Raises:
            ClusterError: not in time; names the jobs for which it does not hold, and what they say.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            views = self.views()
            look(views)
            missing = [name for name in job_names if name not in views or not condition(views[name])]
            if not missing:
                return views
            if time.monotonic() > deadline:
                said = "; ".join(describe(views.get(name), name) for name in missing)
                raise ClusterError(f"{what}: not within {timeout_seconds:.0f} s: {said}")
            time.sleep(_POLL_SECONDS)

    def delete_all(self, timeout_seconds: float = 120.0) -> None:
        """Delete every job and wait until their pods are gone, so that the GPUs are free."""
        deadline = time.monotonic() + timeout_seconds
        wait = ("--wait=true", f"--timeout={timeout_seconds:.0f}s")
        self._kubectl.run("delete", "trainingjobs", "--all", "--namespace", self.namespace, *wait)
        while self.pods():
            if time.monotonic() > deadline:
                left = ", ".join(pod["metadata"]["name"] for pod in self.pods())
                raise ClusterError(
                    f"pods of deleted jobs are still there after {timeout_seconds:.0f} s: {left}"
                )
            time.sleep(_POLL_SECONDS)


def describe(view: JobView | None, name: str) -> str:
    """Return a sentence about how a job is doing."""
    if view is None:
        return f"{name} is not there"
    waiting = view.status.waiting
    if waiting is not None:
        return f"{name} waits: {waiting.message}"
    failed = view.message("Failed") if view.has("Failed") else ""
    return f"{name} is {view.state}{': ' + failed if failed else ''}"
