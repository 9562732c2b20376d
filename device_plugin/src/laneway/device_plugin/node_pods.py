"""The pods of this node, followed through the API server: what they ask and what the operator chose for them.

A list, then a watch from where the list ended, in raw JSON. While the API server is away the last view stays: pods that
run keep running without it, and the kubelet starts none that it cannot see either.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from laneway.device_plugin.pod_facts import PodFacts, PodKey, pod_facts

_log = logging.getLogger(__name__)

_WATCH_SECONDS = 300
_LONGEST_PAUSE_SECONDS = 15.0


class ApiAwayError(Exception):
    """The API server does not answer, or not as it should; the text says what was asked and what came back."""


class WatchExpiredError(Exception):
    """The API server no longer has the events since that version: list again."""


class PodSource(Protocol):
    """Where pods are read from."""

    async def list_pods(self) -> tuple[list[dict[str, Any]], str]:
        """Return the node's pods and the version of the list."""

    def watch_pods(self, version: str, seconds: int) -> AsyncIterator[dict[str, Any]]:
        """Yield watch events after a version, for so long."""

    async def read_pod(self, namespace: str, name: str, timeout_seconds: float) -> dict[str, Any] | None:
        """Return a pod, None when there is none."""


class NodePods:
    """A view of the node's pods that follows the API server."""

    def __init__(
        self, source: PodSource | None, changed: Callable[[PodFacts], None] = lambda pod: None
    ) -> None:
        """Without a source (no API server is configured) the view stays empty."""
        self.pods: dict[PodKey, PodFacts] = {}
        self.synced = False
        self._source = source
        self._changed = changed

    async def run(self) -> None:
        """Follow the pods until cancelled."""
        if self._source is None:
            return
        pause = 0.5
        while True:
            try:
                version = await self._list(self._source)
                pause = 0.5
                await self._watch(self._source, version)
            except WatchExpiredError:
                continue
            except ApiAwayError as error:
                _log.warning("keeping the last view of the node's pods: %s", error)
                await asyncio.sleep(pause * random.uniform(0.8, 1.2))
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def fetch(self, key: PodKey, timeout_seconds: float) -> PodFacts | None:
        """Ask the API server itself about one pod; None when there is no such pod, or no API server is configured.

        Raises:
            ApiAwayError: no answer within the time.
        """
        if self._source is None:
            return None
        raw = await self._source.read_pod(*key, timeout_seconds)
        facts = None if raw is None else _facts(raw)
        if facts is not None:
            self.pods[key] = facts
        return facts

    async def _list(self, source: PodSource) -> str:
        raw_pods, version = await source.list_pods()
        seen = [facts for raw in raw_pods if (facts := _facts(raw))]
        gone = set(self.pods) - {facts.key for facts in seen}
        before = dict(self.pods)
        self.pods = {facts.key: facts for facts in seen}
        self.synced = True
        for facts in (*seen, *(before[key] for key in gone)):
            self._changed(facts)
        return version

    async def _watch(self, source: PodSource, version: str) -> None:
        """Apply events until the API server ends the watch in order, then watch on from the last version."""
        while True:
            async for event in source.watch_pods(version, _WATCH_SECONDS):
                kind, thing = event.get("type"), event.get("object") or {}
                if kind == "ERROR":
                    if thing.get("code") == 410:
                        raise WatchExpiredError
                    raise ApiAwayError(f"the watch on the node's pods ended: {thing.get('message') or thing}")
                version = thing.get("metadata", {}).get("resourceVersion") or version
                if kind != "BOOKMARK" and (facts := _facts(thing)):
                    self._apply(kind, facts)

    def _apply(self, kind: str | None, facts: PodFacts) -> None:
        if kind == "DELETED":
            known = self.pods.get(facts.key)
            if known is not None and known.uid == facts.uid:
                del self.pods[facts.key]
        else:
            self.pods[facts.key] = facts
        self._changed(facts)


def _facts(raw: dict[str, Any]) -> PodFacts | None:
    """A pod that cannot be read is left out: one odd object must not hide the others."""
    try:
        return pod_facts(raw)
    except (KeyError, TypeError, ValueError) as error:
        name = (raw.get("metadata") or {}).get("name")
        _log.error("pod %r is left out of the view, it cannot be read: %r", name, error)
        return None


def split_lines(buffered: bytes, more: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """Return the JSON objects of the whole lines, and the rest that still lacks its end."""
    *lines, rest = (buffered + more).split(b"\n")
    return [json.loads(line) for line in lines if line.strip()], rest
