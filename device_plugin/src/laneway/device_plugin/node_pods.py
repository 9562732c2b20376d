"""A view of this node's pods, from the API server: their requests and the operator's choices.

It lists, then watches from the list's version, in raw JSON. While the API server is unreachable the last view
stays: running pods need no update, and the kubelet cannot start new ones either.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from laneway.device_plugin.pod_info import PodInfo, PodKey, pod_info

_log = logging.getLogger(__name__)

_WATCH_SECONDS = 300
_MAX_PAUSE_SECONDS = 15.0


class APIUnavailableError(Exception):
    """The API server does not answer correctly; the text names the request and the answer."""


class WatchExpiredError(Exception):
    """The API server no longer has the events since that version; list again."""


class PodSource(Protocol):
    """Reads pods."""

    async def list_pods(self) -> tuple[list[dict[str, Any]], str]:
        """Return the node's pods and the version of the list."""

    def watch_pods(self, version: str, seconds: int) -> AsyncIterator[dict[str, Any]]:
        """Yield watch events after a version, for this many seconds."""

    async def read_pod(self, namespace: str, name: str, timeout_seconds: float) -> dict[str, Any] | None:
        """Return a pod, None when there is none."""


class NodePods:
    """A view of the node's pods, kept current from the API server."""

    def __init__(
        self, source: PodSource | None, changed: Callable[[PodInfo], None] = lambda pod: None
    ) -> None:
        """Without a source (no API server is configured) the view stays empty."""
        self.pods: dict[PodKey, PodInfo] = {}
        self.synced = False
        self._source = source
        self._changed = changed
        self._fetches = 0
        self._deleted: set[str] = set()
        """The uids of pods that were deleted during the fetches under way, whose answers may be older."""

    @property
    def configured(self) -> bool:
        """Whether there is an API server to ask."""
        return self._source is not None

    async def run(self) -> None:
        """Watch the pods until cancelled."""
        if self._source is None:
            return
        pause = 0.5
        while True:
            try:
                version = await self._list(self._source)
                pause = 0.5
                await self._watch(self._source, version)
            except WatchExpiredError:
                await asyncio.sleep(pause * random.uniform(0.8, 1.2))
            except APIUnavailableError as error:
                _log.warning("cannot watch pods, keeping the last view error=%r", str(error))
                await asyncio.sleep(pause * random.uniform(0.8, 1.2))
                pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    async def fetch(self, key: PodKey, timeout_seconds: float) -> PodInfo | None:
        """Read one pod from the API server; None if there is no such pod, or no API server is configured.

        Raises:
            APIUnavailableError: no answer within the time.
        """
        if self._source is None:
            return None
        self._fetches += 1
        try:
            raw = await self._source.read_pod(*key, timeout_seconds)
            info = None if raw is None else _pod_info(raw)
            if info is not None and info.uid not in self._deleted:
                self.pods[key] = info
            return info
        finally:
            self._fetches -= 1
            if not self._fetches:
                self._deleted.clear()

    async def _list(self, source: PodSource) -> str:
        raw_pods, version = await source.list_pods()
        seen = [info for raw in raw_pods if (info := _pod_info(raw))]
        gone = set(self.pods) - {info.key for info in seen}
        before = dict(self.pods)
        self.pods = {info.key: info for info in seen}
        self.synced = True
        for info in (*seen, *(before[key] for key in gone)):
            self._changed(info)
        return version

    async def _watch(self, source: PodSource, version: str) -> None:
        """Apply events until the API server ends the watch regularly, then watch on from the last version."""
        while True:
            async for event in source.watch_pods(version, _WATCH_SECONDS):
                kind, item = event.get("type"), event.get("object") or {}
                if kind == "ERROR":
                    if item.get("code") == 410:
                        raise WatchExpiredError
                    raise APIUnavailableError(
                        f"the watch on the node's pods ended: {item.get('message') or item}"
                    )
                version = item.get("metadata", {}).get("resourceVersion") or version
                if kind != "BOOKMARK" and (info := _pod_info(item)):
                    self._apply(kind, info)

    def _apply(self, kind: str | None, info: PodInfo) -> None:
        if kind == "DELETED":
            if self._fetches:
                self._deleted.add(info.uid)
            known = self.pods.get(info.key)
            if known is not None and known.uid == info.uid:
                del self.pods[info.key]
        else:
            self.pods[info.key] = info
        self._changed(info)


def _pod_info(raw: dict[str, Any]) -> PodInfo | None:
    """Convert a pod; None if it cannot be read, so that one odd object does not hide the others."""
    try:
        return pod_info(raw)
    except (KeyError, TypeError, ValueError) as error:
        name = (raw.get("metadata") or {}).get("name")
        _log.error("unreadable pod ignored pod=%r error=%r", name, str(error))
        return None


def split_lines(buffered: bytes, more: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """Return the JSON objects of the complete lines, and the incomplete rest."""
    *lines, rest = (buffered + more).split(b"\n")
    return [json.loads(line) for line in lines if line.strip()], rest
