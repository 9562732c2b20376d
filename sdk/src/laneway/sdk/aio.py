"""``AsyncTrainingJobClient``: the same verbs for asyncio. Each request runs on a thread of its own, and a cancelled one is ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from laneway.sdk.client import COMPLETE, TrainingJobClient, check_status, reached
from laneway.sdk.job import Event, TrainingJob
from laneway.sdk.logs import lines_of, worker_logs
from laneway.sdk.trainers import Trainer
from laneway.sdk.watch import JobWatch

T = TypeVar("T")
P = ParamSpec("P")
_END: Any = object()
_THREADS = ThreadPoolExecutor(max_workers=1000, thread_name_prefix="laneway-sdk")
"""Not those of ``asyncio.to_thread``: they are few, and each job that is watched would hold one of them."""


class AsyncTrainingJobClient:
    """The verbs of ``TrainingJobClient`` for asyncio, with the same arguments and errors; logs and watches are asynchronous iterators.

    Each request runs on a thread, and a cancelled one is ended.
    """

    def __init__(self, client: TrainingJobClient | None = None) -> None:
        """Use the cluster and the namespace of a client; None: of ``TrainingJobClient()``."""
        self._client = client or TrainingJobClient()

    async def train(
        self,
        trainer: Trainer,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> str:
        """Create the TrainingJob of a trainer and return its name."""
        return await _in_thread(
            self._client.train, trainer, name=name, labels=labels, annotations=annotations, spec=spec
        )

    async def create_job(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> TrainingJob:
        """Create a TrainingJob from its manifest."""
        return await _in_thread(self._client.create_job, manifest, dry_run=dry_run)

    async def list_jobs(
        self, *, label_selector: str | None = None, all_namespaces: bool = False
    ) -> list[TrainingJob]:
        """Return the TrainingJobs of the namespace, or of all."""
        return await _in_thread(
            self._client.list_jobs, label_selector=label_selector, all_namespaces=all_namespaces
        )

    async def get_job(self, name: str) -> TrainingJob:
        """Return a TrainingJob."""
        return await _in_thread(self._client.get_job, name)

    async def get_job_logs(
        self, name: str, *, worker: int | None = 0, container: str | None = None, follow: bool = False
    ) -> AsyncIterator[str]:
        """Yield the lines of a worker's log, or of all (None)."""
        client = self._client
        logs = await _in_thread(
            worker_logs,
            client.cluster,
            client.namespace,
            name,
            worker=worker,
            container=container,
            follow=follow,
        )

        def close() -> None:
            for log in logs.values():
                log.close()

        async for line in _iterate(lines_of(logs, follow=follow), close):
            yield line

    async def get_job_events(self, name: str) -> list[Event]:
        """Return the events of a job and its workers, the oldest first."""
        return await _in_thread(self._client.get_job_events, name)

    async def wait_for_job_status(
        self,
        name: str,
        status: Collection[str] = COMPLETE,
        timeout: float | None = 600,  # noqa: ASYNC109  # the name that Kubeflow's users know
        callbacks: Collection[Callable[[TrainingJob], None]] = (),
    ) -> TrainingJob:
        """Wait until a job has one of these states, and return it."""
        wanted = check_status(status)
        async for job in self.watch_job(name, timeout=timeout):
            if reached(job, wanted, name, callbacks):
                return job
        raise TimeoutError(
            f"TrainingJob {name} was in none of the states {', '.join(sorted(wanted))} after {timeout} s"
        )

    async def watch_job(
        self,
        name: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # as in wait_for_job_status
    ) -> AsyncIterator[TrainingJob | None]:
        """Yield a job now, after each change, and once a minute; None, as the last, once it does not exist."""
        client = self._client
        watch = JobWatch(client.cluster, client.namespace, name=name, timeout_seconds=timeout)
        async for job in _iterate(watch.states(), watch.close):
            yield TrainingJob(job) if job else None

    async def watch_jobs(
        self, *, label_selector: str | None = None, all_namespaces: bool = False
    ) -> AsyncIterator[list[TrainingJob]]:
        """Yield all matching jobs now, after each change, and once a minute."""
        namespace = None if all_namespaces else self._client.namespace
        watch = JobWatch(self._client.cluster, namespace, label_selector=label_selector)
        async for jobs in _iterate(watch.snapshots(), watch.close):
            yield [TrainingJob(job) for job in jobs]

    async def suspend_job(self, name: str) -> TrainingJob:
        """Suspend a job."""
        return await _in_thread(self._client.suspend_job, name)

    async def resume_job(self, name: str) -> TrainingJob:
        """Resume a suspended job."""
        return await _in_thread(self._client.resume_job, name)

    async def delete_job(self, name: str) -> None:
        """Delete a job."""
        await _in_thread(self._client.delete_job, name)


async def _in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    call = partial(function, *arguments, **named)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, copy_context().run, call)


async def _iterate(items: Iterator[T], close: Callable[[], object]) -> AsyncIterator[T]:
    """Yield what an iterator that waits yields; when this one ends or is cancelled, close ends the other's wait."""
    try:
        while (item := await _in_thread(next, items, _END)) is not _END:
            yield item
    finally:
        close()
