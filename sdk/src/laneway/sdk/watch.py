"""Watches TrainingJobs: a list, and after it each change, for as long as it is wanted."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator

from laneway.sdk.cluster import ByteStream, Cluster, Object, checked_name, jobs_path

_REQUEST_SECONDS = 60
"""How long one watch request lasts; its stream may be silent for all of that time."""

_MARGIN_SECONDS = 30


class JobWatch:
    """A watch of one job by its name, or of those that match a label selector."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str | None,
        *,
        name: str | None = None,
        label_selector: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Prepare a watch of a namespace, or of all (None). It lasts for so many seconds, and up to one more; None: for ever."""
        self._cluster = cluster
        self._path = jobs_path(namespace)
        self._what = "TrainingJobs" if name is None else f"TrainingJob {name} in namespace {namespace}"
        self._selectors = {
            "fieldSelector": None if name is None else f"metadata.name={checked_name(name)}",
            "labelSelector": label_selector,
        }
        self._deadline_seconds = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._stream: ByteStream | None = None
        self._closed = threading.Event()

    def snapshots(self) -> Iterator[list[Object]]:
        """Yield the jobs now, after each change, and once a minute."""
        while not self._closed.is_set():
            found = self._cluster.get(self._path, what=self._what, **self._selectors)
            jobs = {job["metadata"]["uid"]: job for job in found["items"]}
            yield list(jobs.values())
            if self._over:
                return
            for event in self._events(found["metadata"]["resourceVersion"]):
                job = event["object"]
                if event["type"] == "DELETED":
                    jobs.pop(job["metadata"]["uid"], None)
                else:
                    jobs[job["metadata"]["uid"]] = job
                yield list(jobs.values())
            if self._over:
                return

    def states(self) -> Iterator[Object | None]:
        """Yield the one job now and after each change; None, as the last, once it does not exist."""
        for jobs in self.snapshots():
            yield jobs[0] if jobs else None
            if not jobs:
                return

    def close(self) -> None:
        """End the watch: a read that waits returns."""
        self._closed.set()
        if self._stream is not None:
            self._stream.close()

    @property
    def _over(self) -> bool:
        return self._closed.is_set() or time.monotonic() >= self._deadline_seconds

    def _events(self, version: str) -> Iterator[Object]:
        """Yield changes since a resource version, until a request's time is over or the API server has them no longer."""
        left_seconds = min(_REQUEST_SECONDS, self._deadline_seconds - time.monotonic())
        self._stream = self._cluster.stream(
            self._path,
            what=self._what,
            silent_seconds=_REQUEST_SECONDS + _MARGIN_SECONDS,
            watch="true",
            resourceVersion=version,
            timeoutSeconds=str(max(1, math.ceil(left_seconds))),
            **self._selectors,
        )
        rest = b""
        for piece in () if self._closed.is_set() else self._stream:
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":  # most often 410: the changes are gone
                    return
                yield event
