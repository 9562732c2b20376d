"""``TrainingJobClient``: TrainingJobs from Python, with the verbs of Kubeflow's TrainerClient."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeGuard

from laneway.api.job_conditions import SummaryState
from laneway.sdk import job_object
from laneway.sdk.cluster import MERGE, Cluster, Object, events_path, jobs_path
from laneway.sdk.errors import JobFailedError, NotFoundError, WrongArgumentError
from laneway.sdk.job import Event, TrainingJob, of_an_earlier_job
from laneway.sdk.job_object import ranks
from laneway.sdk.logs import lines_of, worker_logs
from laneway.sdk.manifest import job_manifest
from laneway.sdk.trainers import Trainer
from laneway.sdk.unsaved_work import loss_at_a_stop
from laneway.sdk.watch import JobWatch

FIELD_MANAGER = "laneway-sdk"
COMPLETE = frozenset({SummaryState.COMPLETE.value})
_PASSED_BY_COMPLETION = {SummaryState.STARTING, SummaryState.RUNNING}
"""A job that completed was in these states, even where it was too fast to be seen."""


class TrainingJobClient:
    """The TrainingJobs of one namespace. Threads may share a client."""

    def __init__(
        self,
        *,
        namespace: str | None = None,
        kubeconfig: str | None = None,
        context: str | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """Use a cluster with the user's own rights.

        Args:
            namespace: None: that of the kubeconfig's context; with a pod's service account, the pod's.
            kubeconfig: path; None: ``KUBECONFIG``, else ``~/.kube/config``, else the pod's service account.
            context: context of the kubeconfig; None: its current one.
            cluster: of another client, to share its connections; the kubeconfig and the context are not used then.

        Raises:
            UnreachableError: there is no kubeconfig, or it is wrong.
        """
        self.cluster = cluster or Cluster(kubeconfig=kubeconfig, context=context)
        self.namespace = namespace or self.cluster.namespace

    def train(
        self,
        trainer: Trainer,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> str:
        """Create the TrainingJob of a trainer and return its name; ``laneway.sdk.job_manifest`` describes the arguments.

        Raises:
            LanewayError: an argument is wrong, or the cluster refuses the job.
        """
        manifest = job_manifest(trainer, name=name, labels=labels, annotations=annotations, spec=spec)
        return self.create_job(manifest).name

    def create_job(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> TrainingJob:
        """Create a TrainingJob from its manifest; with dry_run, the API server checks it, and stores nothing.

        Raises:
            AlreadyExistsError: the namespace has a job of this name.
            InvalidJobError: a field is wrong.
        """
        return TrainingJob(
            self.cluster.create(
                jobs_path(self.namespace),
                manifest,
                what=self._what(job_object.name(manifest)),
                fieldManager=FIELD_MANAGER,
                fieldValidation="Strict",
                dryRun="All" if dry_run else None,
            )
        )

    def list_jobs(
        self, *, label_selector: str | None = None, all_namespaces: bool = False
    ) -> list[TrainingJob]:
        """Return the TrainingJobs of the namespace, or of all, that match a label selector such as ``team=a,stage!=test``."""
        path = jobs_path(None if all_namespaces else self.namespace)
        found = self.cluster.get(path, what="TrainingJobs", labelSelector=label_selector)
        return [TrainingJob(job) for job in found["items"]]

    def get_job(self, name: str) -> TrainingJob:
        """Return a TrainingJob.

        Raises:
            NotFoundError: it does not exist.
        """
        return TrainingJob(self.cluster.get(jobs_path(self.namespace, name), what=self._what(name)))

    def get_job_logs(
        self, name: str, *, worker: int | None = 0, container: str | None = None, follow: bool = False
    ) -> Iterator[str]:
        """Yield the lines of a worker's log.

        Args:
            name: of the job.
            worker: rank of the worker; None: all workers; of several, each line after its pod's name in brackets.
            container: None: the trainer.
            follow: go on, through preemptions and restarts, until the job has ended.

        Raises:
            NotFoundError: there is no such job, or no log yet.
            WrongArgumentError: the job has no worker of this rank, or no such container.
        """
        logs = worker_logs(
            self.cluster, self.namespace, name, worker=worker, container=container, follow=follow
        )
        yield from lines_of(logs, follow=follow)

    def get_job_events(self, name: str) -> list[Event]:
        """Return the events of a job and its workers, the oldest first; a cluster keeps them for an hour by default.

        Raises:
            NotFoundError: there is no such job.
        """
        job = self.get_job(name).object
        workers = {f"{name}-{rank}" for rank in range(max(ranks(job), job["spec"].get("maxWorkers") or 0))}
        found = [
            *self._events(f"involvedObject.kind=TrainingJob,involvedObject.name={name}"),
            *(
                each
                for each in self._events("involvedObject.kind=Pod")  # one request, however many workers
                if each["involvedObject"]["name"] in workers
            ),
        ]
        events = [Event(each) for each in found if not of_an_earlier_job(each, job["metadata"])]
        return sorted(events, key=lambda event: event.event_time)

    def _events(self, selector: str) -> Iterator[Object]:
        path, what = events_path(self.namespace), f"events in namespace {self.namespace}"
        return self.cluster.items(path, what=what, fieldSelector=selector)

    def wait_for_job_status(
        self,
        name: str,
        status: Collection[str] = COMPLETE,
        timeout: float | None = 600,
        callbacks: Collection[Callable[[TrainingJob], None]] = (),
    ) -> TrainingJob:
        """Wait until a job has one of these states, and return it.

        Args:
            name: of the job.
            status: values of ``laneway.api.job_conditions.SummaryState``, such as Running, Complete and Failed.
            timeout: in seconds; None: no limit.
            callbacks: called with the job now and after each change.

        Raises:
            JobFailedError: it ended, and will have none of these states.
            NotFoundError: it does not exist, or was deleted.
            TimeoutError: the time is over.
        """
        wanted = check_status(status)
        for job in self.watch_job(name, timeout=timeout):
            if reached(job, wanted, name, callbacks):
                return job
        raise TimeoutError(
            f"TrainingJob {name} was in none of the states {', '.join(sorted(wanted))} after {timeout} s"
        )

    def watch_job(self, name: str, *, timeout: float | None = None) -> Iterator[TrainingJob | None]:
        """Yield a job now, after each change, and once a minute; None, as the last, once it does not exist.

        It ends after a time in seconds, and up to one more; None: never.
        """
        watch = JobWatch(self.cluster, self.namespace, name=name, timeout_seconds=timeout)
        yield from (TrainingJob(job) if job else None for job in watch.states())

    def watch_jobs(
        self, *, label_selector: str | None = None, all_namespaces: bool = False
    ) -> Iterator[list[TrainingJob]]:
        """Yield all matching jobs now, after each change, and once a minute."""
        namespace = None if all_namespaces else self.namespace
        watch = JobWatch(self.cluster, namespace, label_selector=label_selector)
        yield from ([TrainingJob(job) for job in jobs] for jobs in watch.snapshots())

    def suspend_job(self, name: str) -> TrainingJob:
        """Suspend a job: its workers get their grace period for a checkpoint and end; it keeps its place by what it has used.

        Warns of what it loses if no checkpoint of it was seen.

        Raises:
            NotFoundError: it does not exist.
        """
        job = self._set_suspend(name, True)
        if loss := loss_at_a_stop(job.object, time.time()):
            warnings.warn(f"TrainingJob {name}: {loss}", stacklevel=2)
        return job

    def resume_job(self, name: str) -> TrainingJob:
        """Resume a suspended job: it is scheduled again, and goes on from its checkpoint.

        Raises:
            NotFoundError: it does not exist.
        """
        return self._set_suspend(name, False)

    def delete_job(self, name: str) -> None:
        """Delete a job; its workers get their grace period for a checkpoint.

        Raises:
            NotFoundError: it does not exist.
        """
        self.cluster.delete(jobs_path(self.namespace, name), what=self._what(name))

    def _set_suspend(self, name: str, suspend: bool) -> TrainingJob:
        path, body = jobs_path(self.namespace, name), {"spec": {"suspend": suspend}}
        return TrainingJob(
            self.cluster.patch(path, body, what=self._what(name), kind=MERGE, fieldManager=FIELD_MANAGER)
        )

    def _what(self, name: str) -> str:
        return f"TrainingJob {name} in namespace {self.namespace}"


def check_status(status: Collection[str]) -> set[str]:
    """Return the states that are waited for.

    Raises:
        WrongArgumentError: one of them does not exist.
    """
    known = [each.value for each in SummaryState]
    if isinstance(status, str) or not set(status) <= set(known):
        raise WrongArgumentError(f"status is {status!r}: write a set of {', '.join(known)}")
    return set(status)


def reached(
    job: TrainingJob | None,
    wanted: Collection[str],
    name: str,
    callbacks: Collection[Callable[[TrainingJob], None]],
) -> TypeGuard[TrainingJob]:
    """Call the callbacks, and return whether a wait is over.

    Args:
        job: as it is now; None: it does not exist.
        wanted: the states that are waited for.
        name: the job's.
        callbacks: called with the job.

    Raises:
        JobFailedError: it ended otherwise.
        NotFoundError: it does not exist.
    """
    if job is None:
        raise NotFoundError(f"TrainingJob {name} not found, or deleted")
    for callback in callbacks:
        callback(job)
    if job.status in wanted:
        return True
    if job.status == SummaryState.COMPLETE and _PASSED_BY_COMPLETION & set(wanted):
        return True
    if job.finished:
        raise JobFailedError(f"TrainingJob {name} is {job.status}: {job.message}")
    return False
