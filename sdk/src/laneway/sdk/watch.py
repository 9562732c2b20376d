"""Watches TrainingJobs: a list, and after it each change, for as long as it is wanted.

A connection that is cut is opened again at the last change that was seen. Jobs are listed again only where the API server no longer knows
the changes since then.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator

from laneway.sdk.cluster import ByteStream, Cluster, Object, jobs_path, refusal
from laneway.sdk.errors import ExpiredError, ForbiddenError, UnreachableError
from laneway.sdk.outage import Retries

_REQUEST_SECONDS = 60
"""How long one watch request lasts; its stream may be silent for all of that time."""

_MARGIN_SECONDS = 30
_PAUSE_SECONDS = 0.5
"""Between two requests, should a proxy end each at once."""


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
        self._what = f"TrainingJob {name} in namespace {namespace}" if name else "TrainingJobs"
        self._selectors = {
            "fieldSelector": f"metadata.name={name}" if name else None,
            "labelSelector": label_selector,
        }
        self._deadline_seconds = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._stream: ByteStream | None = None
        self._closed = threading.Event()

    def snapshots(self) -> Iterator[list[Object]]:
        """Yield the jobs now, after each change, and once a minute. Only the first request fails; later failures are waited out."""
        retries = Retries(self._cluster.outage, self._closed, self._deadline_seconds)
        jobs, version = self._list()
        retries.succeeded()
        yield list(jobs.values())
        while not self._over:
            try:
                if not version:
                    jobs, version = self._list()
                    yield list(jobs.values())
                for event in self._events(version, retries):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if _apply(event, jobs):
                        yield list(jobs.values())
                yield list(jobs.values())
            except ExpiredError:
                version = ""
            except (UnreachableError, ForbiddenError) as error:
                retries.wait(error)
                continue
            self._closed.wait(_PAUSE_SECONDS)

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

    def _list(self) -> tuple[dict[str, Object], str]:
        """Return the jobs by their UIDs, and the version from which they are watched."""
        found = self._cluster.get(self._path, what=self._what, **self._selectors)
        jobs = {str(job["metadata"]["uid"]): job for job in found["items"]}
        return jobs, str(found["metadata"]["resourceVersion"])

    def _events(self, version: str, retries: Retries) -> Iterator[Object]:
        """Yield changes and bookmarks since a resource version, until a request's time is over.

        Raises:
            ExpiredError: the API server has the changes no longer.
            UnreachableError: it does not answer, or the connection was cut.
        """
        left_seconds = min(_REQUEST_SECONDS, self._deadline_seconds - time.monotonic())
        self._stream = self._cluster.stream(
            self._path,
            what=self._what,
            silent_seconds=_REQUEST_SECONDS + _MARGIN_SECONDS,
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=version,
            timeoutSeconds=str(max(1, math.ceil(left_seconds))),
            **self._selectors,
        )
        retries.succeeded()
        rest = b""
        for piece in () if self._closed.is_set() else self._stream:
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                event = self._cluster.parsed(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    code, reason = int(status.get("code") or 500), str(status.get("reason"))
                    raise refusal(code, json.dumps(status).encode(), reason, self._what)
                yield event


def _apply(event: Object, jobs: dict[str, Object]) -> bool:
    """Bring the jobs up to date; return whether the event is a change, and no bookmark."""
    job = event["object"]
    if event["type"] == "DELETED":
        jobs.pop(job["metadata"]["uid"], None)
    elif event["type"] != "BOOKMARK":
        jobs[job["metadata"]["uid"]] = job
    return bool(event["type"] != "BOOKMARK")
