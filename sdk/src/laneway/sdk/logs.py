"""The logs of a job's workers: one attempt after the other, and several workers at a time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from laneway.sdk.cluster import ByteStream, Cluster, Object, jobs_path, pods_path
from laneway.sdk.errors import (
    ForbiddenError,
    InvalidJobError,
    LanewayError,
    NotFoundError,
    UnreachableError,
    WrongArgumentError,
)
from laneway.sdk.job_object import finished, ranks
from laneway.sdk.outage import Retries
from laneway.sdk.shown_log import ShownLog

TRAINER = "trainer"
_POLL_SECONDS = 1.0
_LAST_TRIES_SECONDS = 30.0
"""How long the log of a job that has ended is tried: its node may be gone."""


def container_of(pod: Mapping[str, Any], requested: str | None) -> str:
    """Return the requested container, or the trainer: the container of that name, else the first one.

    Raises:
        WrongArgumentError: the pod has no container of the requested name.
    """
    names = [item["name"] for item in pod["spec"]["containers"]]
    if requested is None:
        return TRAINER if TRAINER in names else str(names[0])
    if requested not in names:
        raise WrongArgumentError(f"there is no container {requested}: the pod has {', '.join(names)}")
    return requested


def has_started(pod: Mapping[str, Any], container: str) -> bool:
    """Whether a container has started, so that it has a log."""
    state = _state(pod, container)
    return bool(state.get("running") or state.get("terminated"))


def has_ended(pod: Mapping[str, Any], container: str) -> bool:
    """Whether a container has ended, so that nothing more is written to its log."""
    return bool(_state(pod, container).get("terminated"))


def _state(pod: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((item.get("state") or {} for item in statuses if item["name"] == container), {})


def worker_logs(
    cluster: Cluster, namespace: str, job: str, *, worker: int | None, container: str | None, follow: bool
) -> dict[str, WorkerLog]:
    """Return the log of a worker of a job, or of all (None), by the names of their pods.

    Raises:
        NotFoundError: there is no such job.
        WrongArgumentError: the job has no worker of this rank.
    """
    count = ranks(cluster.get(jobs_path(namespace, job), what=f"TrainingJob {job} in namespace {namespace}"))
    if worker is not None and not 0 <= worker < count:
        raise WrongArgumentError(f"worker is {worker}: {job} has the ranks 0 to {count - 1}")
    return {
        f"{job}-{rank}": WorkerLog(cluster, namespace, job, rank, container, follow=follow)
        for rank in (range(count) if worker is None else [worker])
    }


class WorkerLog:
    """The log of one worker, through preemptions and restarts if it is followed."""

    def __init__(
        self, cluster: Cluster, namespace: str, job: str, worker: int, container: str | None, *, follow: bool
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._job = job
        self._pod_name = f"{job}-{worker}"
        self._container = container
        self._follow = follow
        self._stream: ByteStream | None = None
        self._closed = threading.Event()

    def pieces(self, waits: Callable[[Object], None] = lambda job: None) -> Iterator[bytes]:
        """Yield the log as it arrives; followed, it ends when the job has ended, and goes on after a connection was lost.

        Args:
            waits: called with the job while it has no worker whose log could be read.

        Raises:
            NotFoundError: there is no log yet, and it is not followed.
        """
        if self._follow:
            yield from self._followed(waits)
        elif pod := self._started_pod():
            yield from self._open(pod, {})
        else:
            raise NotFoundError(f"{self._pod_name} has no log yet")

    def _followed(self, waits: Callable[[Object], None]) -> Iterator[bytes]:
        retries = Retries(self._cluster.outage, self._closed)
        uid, shown, complete = "", ShownLog(), False
        while not self._closed.is_set():
            job: Object | None = None
            try:
                job = self._read_job()  # before the pod: an ended job starts no further one
                pod = self._started_pod()
                if pod is not None and pod["metadata"]["uid"] != uid:
                    uid, shown, complete = pod["metadata"]["uid"], ShownLog(), False
                if pod is not None and not complete:
                    yield from self._rest(pod, shown, retries)
                    # A stream may end while the container runs; then it is opened again.
                    complete = finished(job) or has_ended(pod, container_of(pod, self._container))
                    if complete:
                        continue
                elif finished(job):
                    return
                else:
                    retries.succeeded()
                    if pod is None:
                        waits(job)
            except (UnreachableError, ForbiddenError) as error:
                if job is not None and finished(job) and retries.failing_seconds > _LAST_TRIES_SECONDS:
                    raise
                retries.wait(error)
            else:
                self._closed.wait(_POLL_SECONDS)

    def lines(self) -> Iterator[str]:
        """Yield the log line by line, without the ends of lines."""
        rest = b""
        for piece in self.pieces():
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace")
        if rest:
            yield rest.decode(errors="replace")

    def close(self) -> None:
        """End the log: a read that waits returns."""
        self._closed.set()
        if self._stream is not None:
            self._stream.close()

    def _read_job(self) -> Object:
        what = f"TrainingJob {self._job} in namespace {self._namespace}"
        return self._cluster.get(jobs_path(self._namespace, self._job), what=what)

    def _started_pod(self) -> Object | None:
        """Return the worker's pod once its container has started."""
        try:
            pod = self._cluster.get(pods_path(self._namespace, self._pod_name), what=f"pod {self._pod_name}")
        except NotFoundError:
            return None
        return pod if has_started(pod, container_of(pod, self._container)) else None

    def _rest(self, pod: Object, shown: ShownLog, retries: Retries) -> Iterator[bytes]:
        """Yield what was not shown yet of the log of a pod, as it arrives."""
        try:
            pieces = self._open(pod, {"follow": "true", "timestamps": "true", "sinceTime": shown.since_time})
        except (NotFoundError, InvalidJobError):  # the pod was deleted meanwhile, or has been replaced
            return
        retries.succeeded()
        shown.begin()
        for piece in pieces:
            if added := shown.new(piece):
                yield added

    def _open(self, pod: Object, query: Mapping[str, str | None]) -> Iterable[bytes]:
        path = f"{pods_path(self._namespace, self._pod_name)}/log"
        container, what = container_of(pod, self._container), f"log of pod {self._pod_name}"
        self._stream = self._cluster.stream(
            path, what=what, silent_seconds=None, container=container, **query
        )
        return () if self._closed.is_set() else self._stream


def lines_of(logs: Mapping[str, WorkerLog], *, follow: bool) -> Iterator[str]:
    """Yield the lines of one log; of several, each line after the log's name in brackets.

    Logs that are followed yield their lines as they arrive, others one log after the other.

    Raises:
        NotFoundError: none of them has begun, and they are not followed.
    """
    if len(logs) == 1:
        yield from next(iter(logs.values())).lines()
    elif follow:
        yield from _merge(logs)
    else:
        yield from _one_after_the_other(logs)


def _one_after_the_other(logs: Mapping[str, WorkerLog]) -> Iterator[str]:
    missing: list[NotFoundError] = []
    for name, log in logs.items():
        try:
            yield from (f"[{name}] {line}" for line in log.lines())
        except NotFoundError as error:
            missing.append(error)
    if len(missing) == len(logs):
        raise missing[0]


def _merge(logs: Mapping[str, WorkerLog]) -> Iterator[str]:
    arrived: queue.SimpleQueue[str | LanewayError | None] = queue.SimpleQueue()
    for name, log in logs.items():
        threading.Thread(target=_read, args=(name, log, arrived), daemon=True).start()
    left = len(logs)
    try:
        while left:
            item = arrived.get()
            if isinstance(item, LanewayError):
                raise item
            if item is None:
                left -= 1
            else:
                yield item
    finally:
        for log in logs.values():
            log.close()


def _read(name: str, log: WorkerLog, arrived: queue.SimpleQueue[str | LanewayError | None]) -> None:
    try:
        for line in log.lines():
            arrived.put(f"[{name}] {line}")
        arrived.put(None)
    except LanewayError as error:
        arrived.put(error)
