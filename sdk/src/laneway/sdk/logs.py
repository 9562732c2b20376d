"""The logs of a job's workers: one attempt after the other, and several workers at a time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from laneway.sdk.cluster import ByteStream, Cluster, Object, jobs_path, pods_path
from laneway.sdk.errors import LanewayError, NotFoundError, WrongArgumentError
from laneway.sdk.job_object import finished

TRAINER = "trainer"
_POLL_SECONDS = 1.0


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
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    state = next((item.get("state") or {} for item in statuses if item["name"] == container), {})
    return bool(state.get("running") or state.get("terminated"))


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
        """Yield the log as it arrives; followed, it ends when the job has ended.

        Args:
            waits: called with the job while it has no worker whose log could be read.

        Raises:
            NotFoundError: there is no log yet, and it is not followed.
        """
        read: set[str] = set()
        while not self._closed.is_set():
            job = self._read_job()  # before the pod: an ended job starts no further one
            pod = self._started_pod()
            if pod is not None and pod["metadata"]["uid"] not in read:
                read.add(pod["metadata"]["uid"])
                yield from self._log(pod)
                if not self._follow:
                    return
            elif not self._follow:
                raise NotFoundError(f"{self._pod_name} has no log yet")
            elif finished(job):
                return
            else:
                if pod is None:
                    waits(job)
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

    def _log(self, pod: Object) -> Iterator[bytes]:
        path = f"{pods_path(self._namespace, self._pod_name)}/log"
        self._stream = self._cluster.stream(
            path,
            what=f"log of pod {self._pod_name}",
            container=container_of(pod, self._container),
            follow="true" if self._follow else None,
        )
        if not self._closed.is_set():
            yield from self._stream


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
