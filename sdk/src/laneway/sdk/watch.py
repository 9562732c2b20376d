"""Watches objects: a list, and after it each change, for as long as it is wanted.

A connection that is cut is opened again at the last change that was seen. Objects are listed again only where the API server no longer knows
the changes since then.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator

from laneway.sdk.cluster import ByteStream, Cluster, Object, checked_name, jobs_path, refusal
from laneway.sdk.errors import ExpiredError, ForbiddenError, UnreachableError
from laneway.sdk.outage import Retries

_REQUEST_SECONDS = 60
"""How long one watch request lasts; its stream may be silent for all of that time."""

_MARGIN_SECONDS = 30
_PAUSE_SECONDS = 0.5
"""Between two requests, should a proxy end each at once."""


class ObjectWatch:
    """A watch of the objects below a path: of one by its name, or of those that match a label selector."""

    def __init__(
        self,
        cluster: Cluster,
        path: str,
        what: str,
        *,
        name: str | None = None,
        label_selector: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Prepare a watch.

        Args:
            cluster: where the objects are.
            path: the API server's, of the list.
            what: is watched, as errors name it.
            name: of the one object; None: all.
            label_selector: None: all.
            timeout_seconds: how long it lasts, and up to one second more; None: for ever.
        """
        self._cluster = cluster
        self._path = path
        self._what = what
        self._selectors = {
            "fieldSelector": None if name is None else f"metadata.name={checked_name(name)}",
            "labelSelector": label_selector,
        }
        self._deadline_seconds = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._stream: ByteStream | None = None
        self._closed = threading.Event()

    def snapshots(self) -> Iterator[list[Object]]:
        """Yield the objects now, after each change, and once a minute. Only the first request fails; later failures are waited out."""
        retries = Retries(self._cluster.outage, self._closed, self._deadline_seconds)
        objects, version = self._list()
        retries.succeeded()
        yield list(objects.values())
        while not self._over:
            try:
                if not version:
                    objects, version = self._list()
                    yield list(objects.values())
                for event in self._events(version, retries):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if _apply(event, objects):
                        yield list(objects.values())
                yield list(objects.values())
            except ExpiredError:
                version = ""
            except (UnreachableError, ForbiddenError) as error:
                retries.wait(error)
                continue
            self._closed.wait(_PAUSE_SECONDS)

    def states(self) -> Iterator[Object | None]:
        """Yield the one object now and after each change; None, as the last, once it does not exist."""
        for objects in self.snapshots():
            yield objects[0] if objects else None
            if not objects:
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
        """Return the objects by their UIDs, and the version from which they are watched."""
        found = self._cluster.get(self._path, what=self._what, **self._selectors)
        objects = {str(each["metadata"]["uid"]): each for each in found["items"]}
        return objects, str(found["metadata"]["resourceVersion"])

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
                event = self._cluster.parsed(line, "type")
                if event["type"] == "ERROR":
                    status = event["object"]
                    code, reason = int(status.get("code") or 500), str(status.get("reason"))
                    raise refusal(code, json.dumps(status).encode(), reason, self._what)
                yield event


class JobWatch(ObjectWatch):
    """A watch of TrainingJobs."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str | None,
        *,
        name: str | None = None,
        label_selector: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Prepare a watch of a namespace, or of all (None)."""
        what = "TrainingJobs" if name is None else f"TrainingJob {name} in namespace {namespace}"
        super().__init__(
            cluster,
            jobs_path(namespace),
            what,
            name=name,
            label_selector=label_selector,
            timeout_seconds=timeout_seconds,
        )


def _apply(event: Object, objects: dict[str, Object]) -> bool:
    """Bring the objects up to date; return whether the event is a change, and no bookmark."""
    changed = event["object"]
    if event["type"] == "DELETED":
        objects.pop(changed["metadata"]["uid"], None)
    elif event["type"] != "BOOKMARK":
        objects[changed["metadata"]["uid"]] = changed
    return bool(event["type"] != "BOOKMARK")
